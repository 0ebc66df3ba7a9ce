package main

import (
	"fmt"
	"io"
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
func (r *result) add(s *side, l load, span time.Duration) error {
	client := &http.Client{Transport: newTransport(), Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	body := l.body()
	for range 20 { // connections are there, and caches warm
		if err := ask(client, s.url, body); err != nil {
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
			err := ask(client, s.url, body)
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

// body is a request of about the load's size.
func (l *load) body() string {
	head := fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"user","content":"`, l.stream)
	const words = "What the quick brown fox said to the lazy dog was not written down. "
	n := max(0, l.bytes-len(head)-4)
	return head + strings.Repeat(words, n/len(words)+1)[:n] + `"}]}`
}

// ask makes a request and reads the answer to its end.
func ask(client *http.Client, url, body string) error {
	answer, err := client.Post(url+"/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", answer.Status, text)
	}
	return err
}
