package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// A result is what one side took for a load.
type result struct {
	times []time.Duration
	cpu   time.Duration
}

func (r *result) quantile(q float64) time.Duration {
	slices.Sort(r.times)
	return r.times[int(q*float64(len(r.times)-1))]
}

// cpuEach is the CPU of a request in microseconds.
func (r *result) cpuEach() float64 {
	return float64(r.cpu.Microseconds()) / float64(len(r.times))
}

// add asks a side for a while at the load's rate. Each request begins at its time, whether
// or not those before it are answered, and its own time counts from then.
func (r *result) add(s *side, l *load, span time.Duration) error {
	client := &http.Client{Transport: newTransport(), Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	head := maps.Clone(l.head)
	if l.open != nil {
		name, value, err := l.open(client, s.url+l.path)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		head[name] = value
	}
	for range 20 { // connections are there, and caches warm
		if err := l.ask(client, s.url, head); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	var failed error
	before, began := cpuTime(s.pid), time.Now()
	step := time.Second / time.Duration(l.rate)
	for at := time.Duration(0); at < span; at += step {
		time.Sleep(time.Until(began.Add(at)))
		all.Go(func() {
			err := l.ask(client, s.url, head)
			took := time.Since(began.Add(at))
			mu.Lock()
			defer mu.Unlock()
			r.times = append(r.times, took)
			if err != nil {
				failed = err
			}
		})
	}
	all.Wait()
	r.cpu += cpuTime(s.pid) - before
	if failed != nil {
		return fmt.Errorf("%s: %w", s.name, failed)
	}
	return nil
}

// ask makes a request and reads the answer to its end.
func (l *load) ask(client *http.Client, url string, head map[string]string) error {
	q, err := http.NewRequest(http.MethodPost, url+l.path, strings.NewReader(l.body))
	if err != nil {
		return err
	}
	accepts(q)
	for name, value := range head {
		q.Header.Set(name, value)
	}
	answer, err := client.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && (answer.StatusCode != http.StatusOK || bytes.Contains(text, []byte(`"error":{`))) {
		err = fmt.Errorf("%s: %.200s", answer.Status, text)
	}
	return err
}
