//go:build unix

package child_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/child"
)

// programs are what the test binary does as a child, by the value of CHILD.
var programs = map[string]func(){
	"echo": func() { // answers each request with its params
		in := bufio.NewReader(os.Stdin)
		for {
			frame, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			if m, bad := jsonrpc.Parse(bytes.TrimSpace(frame), jsonrpc.Bounds{MaxBytes: 64 << 20}); bad == nil && m.Kind == jsonrpc.Request {
				if text, ok := m.Param("double"); ok {
					m.Params, _ = json.Marshal([]json.RawMessage{text, text})
				}
				os.Stdout.Write(append(jsonrpc.NewResult(m.ID, m.Params).Raw, '\n'))
			} else if bad == nil {
				os.Stdout.Write(append(m.Raw, '\n'))
			}
		}
	},
	"exit": func() { os.Exit(3) },
	"mute": func() { os.Stdout.Close(); signal.Ignore(syscall.SIGTERM); select {} },
	"deaf": func() { os.Stdin.Close(); say("deaf"); wait() },
	"idle": wait,
	"obey": func() {
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		say("ready")
		<-term
		say("bye")
	},
	"defiant": func() { signal.Ignore(syscall.SIGTERM); family(); wait() },
	"parent":  func() { family(); wait() },
	"leaver":  func() { family() },
	"broker": func() { // starts a child of its own, and waits to be killed
		l, err := command("parent").Dial(context.Background(), &inbox{down: make(chan error, 1), messages: pids})
		if err != nil || l == nil {
			panic(err)
		}
		os.Stdout.WriteString((<-pids).Method + "\n")
		wait()
	},
	"env": func() {
		say(strings.Join(os.Environ(), " "))
		wait()
	},
	"noise": func() {
		fmt.Println("Server listening on stdio")
		say("here")
		for range 200 {
			fmt.Fprintln(os.Stderr, "key "+os.Getenv("API_KEY")+" and argument "+os.Args[1])
		}
		fmt.Fprintln(os.Stderr, strings.Repeat("x", 5000)+os.Getenv("API_KEY"))
		say("done")
		wait()
	},
}

var pids = make(chan *jsonrpc.Message, 1)

func TestMain(m *testing.M) {
	if run, ok := programs[os.Getenv("CHILD")]; ok {
		run()
		return
	}
	os.Exit(m.Run())
}

func wait() { time.Sleep(time.Minute) }

func say(method string) { fmt.Printf("{\"jsonrpc\":\"2.0\",\"method\":%q}\n", method) }

// family starts a grandchild that ignores everything but a kill, and tells its number.
func family() {
	cmd := exec.Command("sleep", "60")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	say(strconv.Itoa(cmd.Process.Pid))
}

func command(program string) *child.Command {
	return &child.Command{Path: os.Args[0], Env: map[string]string{"CHILD": program}, Grace: 150 * time.Millisecond}
}

// An inbox hands on what it is told.
type inbox struct {
	messages chan *jsonrpc.Message
	lost     chan link.Failure
	bad      chan error
	down     chan error
}

func newInbox() *inbox {
	return &inbox{make(chan *jsonrpc.Message, 1000), make(chan link.Failure, 1000), make(chan error, 1000), make(chan error, 2)}
}

func (in *inbox) Message(m *jsonrpc.Message, _ jsonrpc.ID) { in.messages <- m }
func (in *inbox) Lost(_ jsonrpc.ID, f link.Failure)        { in.lost <- f }
func (in *inbox) Bad(err error)                            { in.bad <- err }
func (in *inbox) Down(err error)                           { in.down <- err }

func dial(t *testing.T, c *child.Command) (link.Link, *inbox) {
	t.Helper()
	in := newInbox()
	l, err := c.Dial(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, in
}

// get takes the next of something that has to come.
func get[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("no %T within 20 s", *new(T))
		panic("unreachable")
	}
}

func send(t *testing.T, l link.Link, m *jsonrpc.Message) {
	t.Helper()
	if err := l.Send(t.Context(), link.Outgoing{Message: m}); err != nil {
		t.Fatal(err)
	}
}

func ask(id string, params any) *jsonrpc.Message {
	return jsonrpc.NewRequest(jsonrpc.StringID(id), "tools/call", params)
}

func TestFrames(t *testing.T) {
	t.Run("M-032 every character comes back, also of 200 calls at once", func(t *testing.T) {
		l, in := dial(t, command("echo"))
		var calls sync.WaitGroup
		for i := range 200 {
			calls.Go(func() { send(t, l, ask(strconv.Itoa(i), map[string]string{"t": "größe 漢字 😀"})) })
		}
		calls.Wait()
		seen := map[jsonrpc.ID]bool{}
		for range 200 {
			m := get(t, in.messages)
			seen[m.ID] = true
			if string(m.Result) != `{"t":"größe 漢字 😀"}` {
				t.Fatalf("got %s", m.Result)
			}
		}
		if len(seen) != 200 {
			t.Errorf("%d different answers", len(seen))
		}
	})
	t.Run("a frame of several lines becomes one line", func(t *testing.T) {
		l, in := dial(t, command("echo"))
		m, _ := jsonrpc.Parse([]byte("{\n  \"jsonrpc\": \"2.0\",\r\n  \"id\": 1, \"method\": \"m\", \"params\": {\"t\": \"a\\nb\"}\n}"), jsonrpc.Bounds{})
		send(t, l, m)
		if got := get(t, in.messages); string(got.Result) != `{"t": "a\nb"}` {
			t.Errorf("got %s", got.Result)
		}
	})
	t.Run("M-074 megabytes pass both ways", func(t *testing.T) {
		c := command("echo")
		c.MaxFrame = 16 << 20
		l, in := dial(t, c)
		text := strings.Repeat("x", 10<<20)
		send(t, l, ask("a", map[string]string{"t": text}))
		if got := get(t, in.messages); len(got.Result) != len(text)+len(`{"t":""}`) {
			t.Errorf("got %d bytes", len(got.Result))
		}
	})
	t.Run("M-074 a frame beyond the bound fails its call, and the child lives", func(t *testing.T) {
		c := command("echo")
		c.MaxFrame = 1000
		l, in := dial(t, c)
		err := l.Send(t.Context(), link.Outgoing{Message: ask("a", map[string]string{"t": strings.Repeat("x", 1000)})})
		if !errors.Is(err, link.ErrNotSent) {
			t.Errorf("out: %v", err)
		}
		send(t, l, ask("b", map[string]string{"double": strings.Repeat("x", 600)}))
		if f := get(t, in.lost); !f.Stopped || !strings.Contains(f.Error(), "1000 bytes") {
			t.Errorf("in: %+v", f)
		}
		send(t, l, ask("c", map[string]string{"t": "fits"}))
		if got := get(t, in.messages); got.ID != jsonrpc.StringID("c") {
			t.Errorf("then: %s", got.Raw)
		}
	})
	t.Run("M-078 stray output is counted, and the child lives", func(t *testing.T) {
		_, in := dial(t, command("noise"))
		if err := get(t, in.bad); strings.Contains(err.Error(), "listening") {
			t.Errorf("the error repeats the provider's text: %v", err)
		}
		if m := get(t, in.messages); m.Method != "here" {
			t.Errorf("then: %s", m.Raw)
		}
	})
	t.Run("a cancellation carries the id", func(t *testing.T) {
		l, in := dial(t, command("echo"))
		l.Cancel(jsonrpc.StringID("brk-7"), "the client has gone")
		want := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"brk-7","reason":"the client has gone"}}`
		if m := get(t, in.messages); string(m.Raw) != want {
			t.Errorf("got %s", m.Raw)
		}
	})
}

func TestEnd(t *testing.T) {
	for _, c := range []struct {
		name, program, says string
	}{
		{"M-018 exit", "exit", "exit status 3"},
		{"M-018 exit, with a grandchild that holds the output", "leaver", "has ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, in := dial(t, command(c.program))
			if err := get(t, in.down); !strings.Contains(err.Error(), c.says) {
				t.Errorf("down: %v", err)
			}
		})
	}
	t.Run("M-018 death is known within 100 ms", func(t *testing.T) {
		soonest := time.Hour // of some, since the machine may be busy
		for tries := 0; tries < 50 && soonest > 100*time.Millisecond; tries++ {
			l, in := dial(t, command("parent"))
			grandchild := atoi(t, get(t, in.messages).Method)
			send(t, l, ask("a", nil))
			leader := parentOf(t, grandchild)
			began := time.Now()
			if err := syscall.Kill(leader, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			err := get(t, in.down)
			soonest = min(soonest, time.Since(began))
			if !strings.Contains(err.Error(), "killed") {
				t.Errorf("down: %v", err)
			}
			if err := l.Send(t.Context(), link.Outgoing{Message: ask("b", nil)}); !errors.Is(err, link.ErrNotSent) {
				t.Errorf("sent to a dead child: %v", err)
			}
			gone(t, grandchild)
		}
		if soonest > 100*time.Millisecond {
			t.Errorf("the soonest is %v", soonest)
		}
	})
	t.Run("M-018 output that has ended fails calls at once, the process goes in its time", func(t *testing.T) {
		l, in := dial(t, command("mute"))
		if err := l.Send(t.Context(), link.Outgoing{Message: ask("a", nil)}); err != nil && !errors.Is(err, link.ErrNotSent) {
			t.Fatal(err)
		} else if err == nil {
			if f := get(t, in.lost); f.NotRun || f.Stopped {
				t.Errorf("lost: %+v", f)
			}
		}
		if err := get(t, in.down); !strings.Contains(err.Error(), "killed") {
			t.Errorf("down: %v", err)
		}
	})
	t.Run("a child that reads no more is ended", func(t *testing.T) {
		l, in := dial(t, command("deaf"))
		get(t, in.messages)
		_ = l.Send(t.Context(), link.Outgoing{Message: ask("a", nil)})
		if f := get(t, in.lost); !f.NotRun {
			t.Errorf("M-004: nothing can have left: %+v", f)
		}
		get(t, in.down)
	})
	t.Run("M-076 first the input is closed, then SIGTERM, and grandchildren go too", func(t *testing.T) {
		l, in := dial(t, command("echo"))
		_ = l.Close()
		if err := get(t, in.down); err != link.ErrClosed {
			t.Errorf("down: %v", err)
		}
		l, in = dial(t, command("obey"))
		get(t, in.messages)
		_ = l.Close()
		_ = l.Close()
		if m := get(t, in.messages); m.Method != "bye" {
			t.Errorf("it said %s", m.Raw)
		}
		if get(t, in.down); len(in.down) > 0 {
			t.Error("down twice")
		}
		l, in = dial(t, command("defiant"))
		grandchild := atoi(t, get(t, in.messages).Method)
		_ = l.Close()
		get(t, in.down)
		gone(t, grandchild)
	})
	t.Run("M-076 what is outside of the group is swept away", func(t *testing.T) {
		left := filepath.Join(t.TempDir(), "container")
		c := command("exit")
		c.Sweep = []string{"rm", "-r", left}
		for range 2 {
			if err := os.Mkdir(left, 0o700); err != nil && !os.IsExist(err) {
				t.Fatal(err)
			}
			l, in := dial(t, c)
			_ = l.Send(t.Context(), link.Outgoing{Message: ask("a", nil)})
			get(t, in.down)
			if _, err := os.Stat(left); !os.IsNotExist(err) {
				t.Error("it is still there")
			}
		}
	})
	t.Run("a child that does not read blocks nobody for ever", func(t *testing.T) {
		l, in := dial(t, command("idle"))
		within, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		big := ask("a", map[string]string{"t": strings.Repeat("x", 1<<20)})
		var err error
		for err == nil {
			err = l.Send(within, link.Outgoing{Message: big})
		}
		if !errors.Is(err, link.ErrNotSent) {
			t.Error(err)
		}
		_ = l.Close()
		if f := get(t, in.lost); f.Err == nil {
			t.Error("a failure without a reason")
		}
		get(t, in.down)
	})
}

func TestStart(t *testing.T) {
	in := newInbox()
	if _, err := (&child.Command{Path: "/no/such/program"}).Dial(t.Context(), in); err == nil || !strings.Contains(err.Error(), "cannot start program") {
		t.Errorf("got %v", err)
	}
	if len(in.down) > 0 {
		t.Error("a link that never was is down")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := command("echo").Dial(over, in); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestEnvironmentIsExplicit(t *testing.T) {
	t.Setenv("BROKER_SECRET", "s3cr3t")
	t.Setenv("TZ", "UTC")
	c := command("env")
	c.Env["API_KEY"] = "given"
	_, in := dial(t, c)
	got := get(t, in.messages).Method
	if strings.Contains(got, "s3cr3t") {
		t.Error("the broker's secret is in the child's environment")
	}
	for _, want := range []string{"PATH=", "TZ=UTC", "API_KEY=given"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %q", want, got)
		}
	}
}

func TestStandardError(t *testing.T) {
	var log bytes.Buffer
	c := command("noise")
	c.Env["API_KEY"] = "topsecret"
	c.Args, c.Secrets = []string{"hunter2"}, []string{"hunter2"}
	c.Log = slog.New(slog.NewJSONHandler(&log, nil))
	l, in := dial(t, c)
	for get(t, in.messages).Method != "done" {
	}
	_ = l.Close()
	get(t, in.down)
	text := log.String()
	if strings.Contains(text, "topsecret") || strings.Contains(text, "hunter2") {
		t.Errorf("a secret is in the log: %s", text)
	}
	if !strings.Contains(text, "key $API_KEY and argument $SECRET") {
		t.Errorf("the log has not what the program wrote: %.300s", text)
	}
	if n := strings.Count(text, "\n"); n < 50 || n > 150 {
		t.Errorf("%d lines of 201 are logged", n)
	}
}

func TestChildDiesWithTheBroker(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills children with their parent")
	}
	broker := exec.Command(os.Args[0])
	broker.Env = append(os.Environ(), "CHILD=broker")
	out, err := broker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	grandchild := atoi(t, strings.TrimSpace(said))
	leader := parentOf(t, grandchild)
	_ = broker.Process.Kill()
	_ = broker.Wait()
	gone(t, leader)
	_ = syscall.Kill(grandchild, syscall.SIGKILL) // the kernel kills the child alone
}

// TestNothingIsLeft starts and ends a thousand children.
func TestNothingIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	c := &child.Command{Path: "cat", Grace: 5 * time.Second}
	for i := range 1000 {
		l, in := dial(t, c)
		if i%2 == 0 {
			send(t, l, jsonrpc.NewNotification("n", nil))
			get(t, in.messages)
		}
		_ = l.Close()
		get(t, in.down)
	}
	settles(t, before)
}

// settles waits until there are no more goroutines than before.
func settles(t *testing.T, before int) {
	t.Helper()
	for began := time.Now(); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Since(began) > 10*time.Second {
			stacks := make([]byte, 1<<20)
			t.Fatalf("M-054 %d goroutines, before %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// parentOf returns the parent of a process.
func parentOf(t *testing.T, pid int) int {
	t.Helper()
	out, err := exec.Command("ps", "-o", "ppid=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		t.Fatal(err)
	}
	return atoi(t, strings.TrimSpace(string(out)))
}

// gone waits until a process is dead; a zombie is.
func gone(t *testing.T, pid int) {
	t.Helper()
	for began := time.Now(); ; runtime.Gosched() {
		out, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
		if state := strings.TrimSpace(string(out)); state == "" || state[0] == 'Z' {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("process %d lives", pid)
		}
	}
}
