package gate_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/internal/browser"
)

// watcher is a page that opens a stream and reports what its script gets to see of it.
const watcher = `<!doctype html><script>
const saw = [], source = new EventSource("/events");
const say = (what, last) => { saw.push(what); if (last) source.close(); fetch("/saw?" + saw.join("+")); };
source.addEventListener("refused", e => say("refused-" + JSON.parse(e.data).status));
source.onmessage = () => say("came-back", true);
source.onerror = () => { if (source.readyState === EventSource.CLOSED) say("gave-up", true); };
</script>`

// TestBrowserEvents: a stream is refused to a real EventSource. By its status it gives
// up for good; by an empty stream it learns why, waits, and comes back.
func TestBrowserEvents(t *testing.T) {
	for _, c := range []struct {
		name  string
		retry bool
		want  []string
	}{
		{"I-109 an empty stream", true, []string{"refused-429", "refused-429+came-back"}},
		{"I-109 a status", false, []string{"gave-up"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := gate.Options{Streams: gate.Streams{RetryEvents: c.retry}}
			g := newGate(t, open(t, slots("streams", 1, "stream")), o)
			ctx, leave := context.WithCancel(t.Context()) // of the stream that has the slot
			defer leave()
			saw := make(chan string, 10)
			mux := http.NewServeMux()
			mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				io.WriteString(w, watcher)
			})
			mux.HandleFunc("/saw", func(_ http.ResponseWriter, r *http.Request) { saw <- r.URL.RawQuery })
			next := make(chan string, 1)
			mux.Handle("/held", events(nil))
			mux.Handle("/events", events(next))
			s := serve(t, g.Handler(mux))
			get(t, ctx, s.URL+"/held")
			browser.Open(t, s.URL)
			for _, want := range c.want {
				select {
				case got := <-saw:
					expect(t, "what the script saw", got, want)
				case <-time.After(time.Minute):
					t.Fatalf("the script does not see %q", want)
				}
				leave()
				next <- "x"
			}
		})
	}
}
