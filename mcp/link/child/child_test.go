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
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/child"
	"github.com/sluicegate/sluice/mcp/link/linktest"
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
		in := linktest.NewInbox()
		l, err := command("parent").Dial(context.Background(), in)
		if err != nil || l == nil {
			panic(err)
		}
		os.Stdout.WriteString((<-in.Messages).Method + "\n")
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

func TestFrames(t *testing.T) {
	t.Run("M-032 every character comes back, also of 200 calls at once", func(t *testing.T) {
		l, in := linktest.Dial(t, command("echo"))
		linktest.AtOnce(t, l, in)
	})
	t.Run("a frame of several lines becomes one line", func(t *testing.T) {
		l, in := linktest.Dial(t, command("echo"))
		m, _ := jsonrpc.Parse([]byte("{\n  \"jsonrpc\": \"2.0\",\r\n  \"id\": 1, \"method\": \"m\", \"params\": {\"t\": \"a\\nb\"}\n}"), jsonrpc.Bounds{})
		linktest.Send(t, l, "", m)
		if got := linktest.Get(t, in.Messages); string(got.Result) != `{"t": "a\nb"}` {
			t.Errorf("got %s", got.Result)
		}
	})
	t.Run("M-074 megabytes pass both ways", func(t *testing.T) {
		c := command("echo")
		c.MaxFrame = 16 << 20
		l, in := linktest.Dial(t, c)
		text := strings.Repeat("x", 10<<20)
		linktest.Send(t, l, "", linktest.Ask("a", map[string]string{"t": text}))
		if got := linktest.Get(t, in.Messages); len(got.Result) != len(text)+len(`{"t":""}`) {
			t.Errorf("got %d bytes", len(got.Result))
		}
	})
	t.Run("M-074 a frame beyond the bound fails its call, and the child lives", func(t *testing.T) {
		c := command("echo")
		c.MaxFrame = 1000
		l, in := linktest.Dial(t, c)
		err := l.Send(t.Context(), link.Outgoing{Message: linktest.Ask("a", map[string]string{"t": strings.Repeat("x", 1000)})})
		if !errors.Is(err, link.ErrNotSent) {
			t.Errorf("out: %v", err)
		}
		linktest.Send(t, l, "", linktest.Ask("b", map[string]string{"double": strings.Repeat("x", 600)}))
		if f := linktest.Get(t, in.Losses); !f.Stopped || !strings.Contains(f.Error(), "1000 bytes") {
			t.Errorf("in: %+v", f)
		}
		linktest.Send(t, l, "", linktest.Ask("c", map[string]string{"t": "fits"}))
		if got := linktest.Get(t, in.Messages); got.ID != jsonrpc.StringID("c") {
			t.Errorf("then: %s", got.Raw)
		}
	})
	t.Run("M-078 stray output is counted, and the child lives", func(t *testing.T) {
		_, in := linktest.Dial(t, command("noise"))
		if err := linktest.Get(t, in.Faults); strings.Contains(err.Error(), "listening") {
			t.Errorf("the error repeats the provider's text: %v", err)
		}
		if m := linktest.Get(t, in.Messages); m.Method != "here" {
			t.Errorf("then: %s", m.Raw)
		}
	})
	t.Run("a cancellation carries the id", func(t *testing.T) {
		l, in := linktest.Dial(t, command("echo"))
		l.Cancel(jsonrpc.StringID("brk-7"), "the client has gone")
		want := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"brk-7","reason":"the client has gone"}}`
		if m := linktest.Get(t, in.Messages); string(m.Raw) != want {
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
			_, in := linktest.Dial(t, command(c.program))
			if err := linktest.Get(t, in.Ends); !strings.Contains(err.Error(), c.says) {
				t.Errorf("down: %v", err)
			}
		})
	}
	t.Run("M-018 death is known within 100 ms", func(t *testing.T) {
		soonest := time.Hour // of some, since the machine may be busy
		for tries := 0; tries < 50 && soonest > 100*time.Millisecond; tries++ {
			l, in := linktest.Dial(t, command("parent"))
			grandchild := atoi(t, linktest.Get(t, in.Messages).Method)
			linktest.Send(t, l, "", linktest.Ask("a", nil))
			leader := parentOf(t, grandchild)
			began := time.Now()
			if err := syscall.Kill(leader, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			err := linktest.Get(t, in.Ends)
			soonest = min(soonest, time.Since(began))
			if !strings.Contains(err.Error(), "killed") {
				t.Errorf("down: %v", err)
			}
			if err := l.Send(t.Context(), link.Outgoing{Message: linktest.Ask("b", nil)}); !errors.Is(err, link.ErrNotSent) {
				t.Errorf("sent to a dead child: %v", err)
			}
			gone(t, grandchild)
		}
		if soonest > 100*time.Millisecond {
			t.Errorf("the soonest is %v", soonest)
		}
	})
	t.Run("M-018 output that has ended fails calls at once, the process goes in its time", func(t *testing.T) {
		l, in := linktest.Dial(t, command("mute"))
		if err := l.Send(t.Context(), link.Outgoing{Message: linktest.Ask("a", nil)}); err != nil && !errors.Is(err, link.ErrNotSent) {
			t.Fatal(err)
		} else if err == nil {
			if f := linktest.Get(t, in.Losses); f.NotRun || f.Stopped {
				t.Errorf("lost: %+v", f)
			}
		}
		if err := linktest.Get(t, in.Ends); !strings.Contains(err.Error(), "killed") {
			t.Errorf("down: %v", err)
		}
	})
	t.Run("a child that reads no more is ended", func(t *testing.T) {
		l, in := linktest.Dial(t, command("deaf"))
		linktest.Get(t, in.Messages)
		_ = l.Send(t.Context(), link.Outgoing{Message: linktest.Ask("a", nil)})
		if f := linktest.Get(t, in.Losses); !f.NotRun {
			t.Errorf("M-004: nothing can have left: %+v", f)
		}
		linktest.Get(t, in.Ends)
	})
	t.Run("M-076 first the input is closed, then SIGTERM, and grandchildren go too", func(t *testing.T) {
		l, in := linktest.Dial(t, command("echo"))
		_ = l.Close()
		if err := linktest.Get(t, in.Ends); err != link.ErrClosed {
			t.Errorf("down: %v", err)
		}
		l, in = linktest.Dial(t, command("obey"))
		linktest.Get(t, in.Messages)
		_ = l.Close()
		_ = l.Close()
		if m := linktest.Get(t, in.Messages); m.Method != "bye" {
			t.Errorf("it said %s", m.Raw)
		}
		if linktest.Get(t, in.Ends); len(in.Ends) > 0 {
			t.Error("down twice")
		}
		l, in = linktest.Dial(t, command("defiant"))
		grandchild := atoi(t, linktest.Get(t, in.Messages).Method)
		_ = l.Close()
		linktest.Get(t, in.Ends)
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
			l, in := linktest.Dial(t, c)
			_ = l.Send(t.Context(), link.Outgoing{Message: linktest.Ask("a", nil)})
			linktest.Get(t, in.Ends)
			if _, err := os.Stat(left); !os.IsNotExist(err) {
				t.Error("it is still there")
			}
		}
	})
	t.Run("a child that does not read blocks nobody for ever", func(t *testing.T) {
		l, in := linktest.Dial(t, command("idle"))
		within, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		big := linktest.Ask("a", map[string]string{"t": strings.Repeat("x", 1<<20)})
		var err error
		for err == nil {
			err = l.Send(within, link.Outgoing{Message: big})
		}
		if !errors.Is(err, link.ErrNotSent) {
			t.Error(err)
		}
		_ = l.Close()
		if f := linktest.Get(t, in.Losses); f.Err == nil {
			t.Error("a failure without a reason")
		}
		linktest.Get(t, in.Ends)
	})
}

func TestStart(t *testing.T) {
	in := linktest.NewInbox()
	if _, err := (&child.Command{Path: "/no/such/program"}).Dial(t.Context(), in); err == nil || !strings.Contains(err.Error(), "cannot start program") {
		t.Errorf("got %v", err)
	}
	if len(in.Ends) > 0 {
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
	_, in := linktest.Dial(t, c)
	got := linktest.Get(t, in.Messages).Method
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
	l, in := linktest.Dial(t, c)
	for linktest.Get(t, in.Messages).Method != "done" {
	}
	_ = l.Close()
	linktest.Get(t, in.Ends)
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
		l, in := linktest.Dial(t, c)
		if i%2 == 0 {
			linktest.Send(t, l, "", jsonrpc.NewNotification("n", nil))
			linktest.Get(t, in.Messages)
		}
		_ = l.Close()
		linktest.Get(t, in.Ends)
	}
	linktest.Settles(t, before)
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
