package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// gatewayFile is the gateway's configuration: limits that are counted and never reached.
const gatewayFile = `
listen: {llm: %q, admin: %q}
llm:
  anonymous: true
  providers:
    mock: {baseUrl: "http://%s/v1", requestsPerMinute: 100000000, tokensPerMinute: 100000000000, maxConcurrentCalls: 10000}
  tenants: {requestsPerMinute: 100000000, tokensPerMinute: 100000000000}
`

// start starts the provider, and the sides in front of it: nobody, the proxy, the gateway.
func start(provider string) (sides []*side, stop func(), err error) {
	dir, err := os.MkdirTemp("", "latency")
	if err != nil {
		return nil, func() {}, err
	}
	var running []*exec.Cmd
	stop = func() {
		for _, cmd := range running {
			_ = cmd.Process.Signal(os.Interrupt)
			_ = cmd.Wait() // how it ends does not matter any more
		}
		_ = os.RemoveAll(dir)
	}
	run := func(cmd *exec.Cmd) (*exec.Cmd, error) {
		cmd.Stderr = os.Stderr
		err := cmd.Start()
		if err == nil {
			running = append(running, cmd)
		}
		return cmd, err
	}
	sluice, file := filepath.Join(dir, "sluice"), filepath.Join(dir, "sluice.yaml")
	build := exec.Command("go", "build", "-o", sluice, "github.com/sluicegate/sluice/cmd/sluice")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return nil, stop, fmt.Errorf("%w: %s", err, out)
	}
	gate, admin := freeAddress(), freeAddress()
	if err := os.WriteFile(file, fmt.Appendf(nil, gatewayFile, gate, admin, provider), 0o600); err != nil {
		return nil, stop, err
	}
	if _, err := run(exec.Command(sluice, "mock-llm", "--listen", provider, "--plan", "mock:output=64,chunks=64")); err != nil {
		return nil, stop, err
	}
	ours, err := run(exec.Command(sluice, "serve", "--config", file))
	if err != nil {
		return nil, stop, err
	}
	self := exec.Command(os.Args[0], "-proxy", "http://"+provider)
	out, err := self.StdoutPipe()
	if err != nil {
		return nil, stop, err
	}
	proxy, err := run(self)
	if err != nil {
		return nil, stop, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, stop, err
	}
	sides = []*side{{"direct", "http://" + provider + "/v1", 0},
		{"proxy", strings.TrimSpace(strings.TrimPrefix(line, "at ")) + "/v1", proxy.Process.Pid}, {"sluice", "http://" + gate + "/v1", ours.Process.Pid}}
	return sides, stop, ready(provider, gate)
}

// ready waits until addresses are listened at.
func ready(addresses ...string) error {
	for _, a := range addresses {
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if c, err := net.Dial("tcp", a); err == nil {
				c.Close()
				break
			} else if time.Now().After(deadline) {
				return err
			}
		}
	}
	return nil
}

func freeAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "127.0.0.1:0"
	}
	defer l.Close()
	return l.Addr().String()
}

func newTransport() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 200, DisableCompression: true}
}

// cpuTime is what a process has used, as Linux tells it, in hundredths of a second.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, after, ok := bytes.Cut(text, []byte(") "))
	fields := strings.Fields(string(after))
	if err != nil || !ok || len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64) // proc(5): fields 14 and 15 of the line
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}
