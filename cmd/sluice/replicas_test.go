package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/store/redis/redistest"
)

// A replica is one of several processes with examples/replicas.yaml.
type replica struct {
	gate string
	cmd  *exec.Cmd
}

// replicas starts processes that share a store.
func replicas(t *testing.T, n int, upstream, uri string) []*replica {
	t.Helper()
	var all []*replica
	for range n {
		gate, admin := freeAddress(t), freeAddress(t)
		cmd := exec.Command("sluice", "serve", "--config", examples+"replicas.yaml",
			"--set", "listen.gate="+gate, "--set", "listen.admin="+admin, "--set", "upstreams.0.url="+upstream,
			"--set", "store.redis.uri="+uri, "--set", "store.redis.silence=3s", "--set", "store.redis.wait=1s")
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
		background(t, cmd, "http://"+admin+"/actuator/health")
		all = append(all, &replica{"http://" + gate, cmd})
	}
	return all
}

// get asks for a path and returns the status, 0 if there is no answer.
func (r *replica) get(ctx context.Context, path string) int {
	req, err := http.NewRequestWithContext(ctx, "GET", r.gate+path, nil)
	if err != nil {
		return 0
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	res.Body.Close() //nolint:errcheck // the status is all that counts
	return res.StatusCode
}

// admitted is how many of n requests, from so many callers at a time at each replica, pass.
func admitted(t *testing.T, of []*replica, callers, n int) int {
	t.Helper()
	var ok atomic.Int64
	var all sync.WaitGroup
	for _, r := range of {
		for range callers {
			all.Go(func() {
				for range n / callers {
					switch status := r.get(t.Context(), "/"); status {
					case http.StatusOK:
						ok.Add(1)
					case http.StatusTooManyRequests:
					default:
						t.Errorf("an answer with status %d", status)
					}
				}
			})
		}
	}
	all.Wait()
	return int(ok.Load())
}

// TestReplicas shows what several processes of the command share, and what it survives
// when one of them is killed.
func TestReplicas(t *testing.T) {
	t.Run("single", func(t *testing.T) { shareLimits(t, "redis://"+redistest.Start(t).Addr) })
	t.Run("Cluster", func(t *testing.T) { shareLimits(t, redistest.Cluster(t).URI()) })
}

func shareLimits(t *testing.T, uri string) {
	began, release := make(chan struct{}, 9), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/reports" {
			began <- struct{}{}
			<-release
		}
		fmt.Fprint(w, "own")
	}))
	t.Cleanup(upstream.Close)
	t.Cleanup(func() { close(release) })
	r := replicas(t, 3, upstream.URL, uri)

	t.Run("B-55 three processes do not triple a limit", func(t *testing.T) {
		if n := admitted(t, r, 16, 48); n != 30 {
			t.Errorf("%d requests passed, want the 30 of one limit", n)
		}
	})
	t.Run("B-55 a process that is killed takes no quota with it, and frees its slots", func(t *testing.T) {
		for range 2 {
			go r[0].get(t.Context(), "/reports")
			<-began
		}
		if status := r[1].get(t.Context(), "/reports"); status != http.StatusTooManyRequests {
			t.Fatalf("a third of two slots: status %d", status)
		}
		r[0].kill(t)
		killed := time.Now()
		if n := admitted(t, r[1:], 4, 8); n != 0 {
			t.Errorf("%d requests passed, and the limit was used up", n)
		}
		if status := r[1].get(t.Context(), "/reports"); status != http.StatusTooManyRequests {
			t.Errorf("the slots of a process are given to others before it is known to be dead: status %d", status)
		}
		for time.Since(killed) < patience {
			go r[1].get(t.Context(), "/reports")
			select {
			case <-began:
				t.Logf("a slot came back after %v; silence is 3 s", time.Since(killed).Round(10*time.Millisecond))
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
		t.Fatal("the slots of a process that was killed do not come back")
	})
}

// kill ends the process as the kernel does when memory is short.
func (r *replica) kill(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
}
