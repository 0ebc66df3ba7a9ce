package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// measured is a site for the metrics: each limit can be used up by itself.
const measured = `
upstreams: [{name: app, url: %q}]
identity:
  clientIp: {trustedProxies: [127.0.0.0/8]}
  apiKeys: {file: keys, secret: "file:secret", unverified: ignore}
tiers: {anonymous: 1000000/s, standard: 1000000/s}
endpoints:
  - {path: /none, limit: 0/s}
  - {path: /slow, id: slow, inFlight: 1, queue: {}}
excludedPaths: [/free]
`

// scrape reads the metrics by Prometheus' own parser: the value of each series of ours,
// of a histogram its count.
func scrape(t *testing.T, admin string) map[string]float64 {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, admin+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := new(remote).authorize(req); err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]float64{}
	for name, family := range families {
		short, ours := strings.CutPrefix(name, "sluice_ratelimit_")
		if !ours {
			continue
		}
		for _, m := range family.GetMetric() {
			series[short+labels(m)] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return series
}

func labels(m *dto.Metric) string {
	var list []string
	for _, l := range m.GetLabel() {
		list = append(list, l.GetName()+"="+l.GetValue())
	}
	return "{" + strings.Join(list, ",") + "}"
}

// TestMetrics sends requests that end in each way there is and reads what Prometheus
// would see.
func TestMetrics(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	app := http.NewServeMux()
	app.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	app.HandleFunc("/slow", func(http.ResponseWriter, *http.Request) { started <- struct{}{}; <-finish })
	upstream := http.Server{Handler: app}
	l, err := listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = upstream.Serve(l) }()
	defer upstream.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"sluice.yaml": fmt.Sprintf(measured, "http://"+l.Addr().String()), "keys": "", "secret": "0123456789abcdefghijklmnopqrstuv",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gate, admin := served(t, filepath.Join(dir, "sluice.yaml"))

	const attack = "<script>alert(1)</script>"
	for _, r := range []struct {
		path, name, value string
		times             int
	}{
		{"/", "Accept", "*/*", 2000},
		{"/none", "Accept", "*/*", 3},
		{"/free", "Accept", "*/*", 4},
		{"/a%00", "Accept", "*/*", 5},
		{"/" + "private-name", "X-Api-Key", "private-key", 6},
		{"/", "X-Forwarded-For", attack, 7},
	} {
		for range r.times {
			_, err := ask("GET", gate+r.path, http.Header{r.name: {r.value}})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 {
		go func() {
			if res, err := http.Get(gate + "/slow"); err == nil {
				res.Body.Close()
			}
		}()
	}
	<-started
	waitFor(t, func() bool { return scrape(t, admin)["queue_depth{rule=slow}"] == 1 })

	got := scrape(t, admin)
	for series, want := range map[string]float64{
		"http_responses_total{class=2xx,listener=gate,outcome=allowed}":  2013,
		"http_responses_total{class=4xx,listener=gate,outcome=refused}":  3,
		"http_responses_total{class=2xx,listener=gate,outcome=bypassed}": 4,
		"http_responses_total{class=4xx,listener=gate,outcome=rejected}": 5,
		"auth_failures_total{kind=unknown_key}":                          6,
		"client_ip_fallback_total{reason=unparsable}":                    7,
		"inflight{rule=slow}":                               1,
		"queue_depth{rule=slow}":                            1,
		"store_errors_total{kind=refused,store=in-memory}":  0,
		"store_errors_total{kind=degraded,store=in-memory}": 0,
		"store_breaker_state{store=in-memory}":              0,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", series, v, ok, want)
		}
	}
	if got["store_keys{store=in-memory}"] < 1 {
		t.Error("the store is said to keep no keys")
	}
	// About 4000 decisions were made, and one in 64 is timed.
	if n := got["decision_seconds{store=in-memory}"]; n < 20 || n > 200 {
		t.Errorf("%v decisions were timed", n)
	}
	for series := range got {
		if strings.Contains(series, "script") || strings.Contains(series, "private") || strings.Contains(series, "127.0.0.1") {
			t.Errorf("I-124 the series %s has text of a caller", series)
		}
	}

	finish <- struct{}{}
	<-started
	finish <- struct{}{}
	waitFor(t, func() bool {
		got := scrape(t, admin)
		return got["inflight{rule=slow}"] == 0 && got["queue_depth{rule=slow}"] == 0 && got["wait_time_seconds{rule=slow}"] == 1
	})
}

// waitFor waits until f is true.
func waitFor(t *testing.T, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never comes true")
		}
	}
}
