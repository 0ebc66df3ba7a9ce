package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"sluice": main,
		"http":   httpMain,
	})
}

// TestScripts runs the command as people do. A script finds free addresses in GATE, ADMIN
// and OTHER, the examples in EXAMPLES, and beside the usual commands:
//
//	http [-X METHOD] [-H 'Name: value'] [-d BODY] URL   one request; prints the whole answer
//	await URL PATTERN                         asks until the answer matches
//	burst N URL ADMITTED [PER SECOND]         N requests, of which so many pass; prints the
//	                                          last answer to the others
//	signal NAME WORD                          signals the background command that has WORD in its line
//	damage FILE OFFSET                        changes one byte of a file
func TestScripts(t *testing.T) {
	testscript.Run(t, scripts(t, "testdata/script"))
}

// scripts are those of a directory, and what is there for them.
func scripts(t *testing.T, dir string) testscript.Params {
	return testscript.Params{
		UpdateScripts:       *update,
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			for _, name := range []string{"GATE", "ADMIN", "OTHER"} {
				env.Setenv(name, freeAddress(t))
			}
			at, err := filepath.Abs(examples)
			if err != nil {
				return err
			}
			env.Setenv("EXAMPLES", at)
			for _, name := range []string{"GOCACHE", "GOMODCACHE"} { // there is no HOME in a script
				out, err := exec.Command("go", "env", name).Output()
				if err != nil {
					return err
				}
				env.Setenv(name, strings.TrimSpace(string(out)))
			}
			// Under the race detector every process would idle for a second at its end.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await":  await,
			"burst":  burst,
			"damage": damage,
			"signal": sendSignal,
		},
	}
}

// freeAddress returns an address on this machine that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// httpMain is the command http.
func httpMain() {
	method := flag.String("X", "GET", "")
	header := http.Header{}
	flag.Func("H", "", func(h string) error {
		name, value, _ := strings.Cut(h, ":")
		header.Add(name, strings.TrimSpace(value))
		return nil
	})
	body := flag.String("d", "", "")
	flag.Parse()
	text, err := send(*method, flag.Arg(0), header, *body)
	fmt.Print(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// ask sends a request and returns the answer as text, its headers sorted.
func ask(method, url string, header http.Header) (string, error) {
	return send(method, url, header, "")
}

func send(method, url string, header http.Header, body string) (string, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header = header
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s\n", res.Proto, res.Status)
	_ = res.Header.Write(&out)
	out.WriteByte('\n')
	_, err = io.Copy(&out, res.Body)
	return strings.ReplaceAll(out.String(), "\r\n", "\n"), err
}

var update = flag.Bool("update", false, "write what commands print into the scripts that compare it")

const patience = 20 * time.Second

func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await URL PATTERN")
	}
	want, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	var last string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if last, err = ask("GET", args[0], http.Header{}); err == nil && want.MatchString(last) {
			return
		}
	}
	ts.Fatalf("%s does not answer %q; the last answer is %q, %v", args[0], args[1], last, err)
}

func burst(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: burst N URL ADMITTED [PER SECOND]")
	}
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		ts.Check(err)
		return n
	}
	n, want, most := number(args[0]), number(args[2]), number(args[2])
	start := time.Now()
	var admitted int
	var refusal string
	for range n {
		text, err := ask("GET", args[1], http.Header{})
		ts.Check(err)
		if strings.HasPrefix(text, "HTTP/1.1 200") {
			admitted++
		} else {
			refusal = text
		}
	}
	fmt.Fprint(ts.Stdout(), refusal)
	if len(args) > 3 { // what time has brought back
		most += int(time.Since(start).Seconds()*float64(number(args[3]))) + 1
	}
	if admitted < want || admitted > most {
		ts.Fatalf("%d of %d requests passed; want %d to %d", admitted, n, want, most)
	}
}

var signals = map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "TERM": syscall.SIGTERM}

func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal NAME WORD")
	}
	for _, cmd := range ts.BackgroundCmds() {
		if slices.Contains(cmd.Args, args[1]) {
			ts.Check(cmd.Process.Signal(signals[args[0]]))
			return
		}
	}
	ts.Fatalf("no command with the word %q runs in the background", args[1])
}

func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: damage FILE OFFSET")
	}
	at, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_RDWR, 0)
	ts.Check(err)
	defer f.Close() //nolint:errcheck // what was written is read back by the script
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	ts.Check(err)
	b[0] ^= 1
	_, err = f.WriteAt(b[:], at)
	ts.Check(err)
}
