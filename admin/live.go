package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/admin/tally"
)

// snapshot is all that the page shows. On the stream, the first event has the history
// and each later one adds a second to it: its Series, Spark and Recent are what is new.
type snapshot struct {
	Seq      uint64            `json:"seq"`
	Time     time.Time         `json:"time"`
	Version  string            `json:"version"`
	Uptime   float64           `json:"uptimeSeconds"`
	Backend  string            `json:"backend"`
	Keys     int64             `json:"keys"`
	MaxKeys  int64             `json:"maxKeys,omitempty"`
	InFlight int               `json:"inFlight"`
	Waiting  int               `json:"waiting"`
	State    stateView         `json:"state"`
	Outcomes []string          `json:"outcomes"` // what the columns of Series mean
	Series   [][]uint32        `json:"series"`   // decisions by outcome, a row a second, oldest first
	Total    map[string]uint64 `json:"total"`
	Rules    []ruleView        `json:"rules"`
	Broker   bool              `json:"broker"` // there is one, to be asked at /actuator/mcp
	Talkers  []talkerView      `json:"talkers"`
	Recent   []recentView      `json:"recent"` // newest first
	Skipped  uint64            `json:"recentSkipped"`
}

// shot returns the state of things with the last seconds of history and the recent
// decisions after since.
func (a *Admin) shot(seconds, spark int, since uint64) *snapshot {
	st := a.opts.Stats()
	series, end := a.tally.Series(seconds)
	s := &snapshot{
		Time: end.UTC(), Version: a.opts.Version, Uptime: round(time.Since(a.started).Seconds()),
		Backend: st.Backend, Keys: st.Keys, MaxKeys: st.MaxKeys, State: a.viewState(),
		Total: byName(a.tally.Overall()), Rules: a.viewRules(spark), Broker: a.opts.Broker(), Talkers: a.viewTalkers(topTalkers),
		Recent: a.viewRecent(since), Skipped: a.recent.Skipped(),
	}
	for o := range tally.Outcomes {
		s.Outcomes = append(s.Outcomes, o.String())
	}
	for i := range series {
		s.Series = append(s.Series, series[i][:])
	}
	for i := range s.Rules {
		s.InFlight += s.Rules[i].Held
		s.Waiting += s.Rules[i].Waiting
	}
	return s
}

func (a *Admin) getSnapshot(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, a.shot(tally.Seconds, sparkSeconds, 0))
}

// encodeTick returns the event that ends second number seq.
func (a *Admin) encodeTick(seq, since uint64) (event []byte, newest uint64) {
	s := a.shot(1, 1, since)
	s.Seq = seq
	newest = since
	if len(s.Recent) > 0 {
		newest = s.Recent[0].Seq
	}
	return encodeEvent("tick", seq, s), newest
}

func encodeEvent(name string, id uint64, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		data, name = []byte(`{}`), "error"
	}
	return fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n\n", id, name, data)
}

const (
	// patience is how long a page may take to read one event.
	patience = 10 * time.Second
	// heartbeat is the longest silence on a stream.
	heartbeat = 15 * time.Second
)

// getStream sends the page a snapshot and then a tick each second, which also tells both
// ends that the other is still there.
func (a *Admin) getStream(w http.ResponseWriter, r *http.Request) {
	ticks, leave, ok := a.live.join()
	if !ok {
		w.Header().Set("Retry-After", "10")
		problem(w, http.StatusServiceUnavailable, "As many pages are open as may be.", "Close one, or read /api/v1/snapshot.")
		return
	}
	defer leave()
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // or nginx in front would keep it back
	w.WriteHeader(http.StatusOK)
	event := encodeEvent("snapshot", 0, a.shot(tally.Seconds, sparkSeconds, 0))
	for {
		// A page that does not read is dropped; and the server's own time-out for whole
		// answers must not apply to one that never ends.
		err := out.SetWriteDeadline(time.Now().Add(patience))
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return
		}
		if _, err := w.Write(event); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case event, ok = <-ticks:
			if !ok {
				return
			}
		case <-time.After(heartbeat):
			event = []byte(": still here\n\n")
		}
	}
}
