// Package redistest starts Redis servers for tests: on free ports of this machine, with
// nothing on disk, gone when the test ends.
package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A Server is one process of redis-server.
type Server struct {
	Addr string // host and port
	Port string

	t    testing.TB
	args []string
	log  string

	mu  sync.Mutex
	cmd *exec.Cmd
}

// Start starts a server with these further arguments, such as "--requirepass", "x". It
// skips the test where there is no redis-server, but fails it where CI is set. The
// environment's REDIS_SERVER names another program to start, such as one of another
// version.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	binary := find(t)
	s := prepare(t, binary)
	s.args = append([]string{binary, "--port", s.Port}, append(s.args, args...)...)
	s.Run()
	return s
}

// Replica starts a server that follows master, and waits until what the master writes
// arrives. The first of two marks may come with the copy that a replica begins with; only
// some time after that does the master send what is new.
func Replica(t testing.TB, master *Server) *Server {
	t.Helper()
	s := Start(t, "--replicaof", "127.0.0.1", master.Port)
	deadline := time.Now().Add(30 * time.Second)
	for _, mark := range []string{"replica:copy:", "replica:news:"} {
		mark += s.Port
		master.Do("SET", mark, "1")
		for s.Do("EXISTS", mark) != ":1" {
			if time.Now().After(deadline) {
				t.Fatalf("the replica of %s does not follow it", master.Addr)
			}
			time.Sleep(10 * time.Millisecond)
		}
		master.Do("DEL", mark)
	}
	return s
}

// Sentinel starts a Sentinel that watches master under the name "books", and takes it for
// dead after a fifth of a second.
func Sentinel(t testing.TB, master *Server) *Server {
	t.Helper()
	s := prepare(t, find(t))
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor books 127.0.0.1 %s 1\n"+
		"sentinel down-after-milliseconds books 200\nsentinel failover-timeout books 2000\n", s.Port, master.Port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = []string{find(t), config, "--sentinel", "--logfile", s.log}
	s.Run()
	return s
}

func find(t testing.TB) string {
	t.Helper()
	if named := os.Getenv("REDIS_SERVER"); named != "" {
		return named
	}
	binary, err := exec.LookPath("redis-server")
	if err == nil {
		return binary
	}
	const missing = "there is no redis-server; make services installs it"
	if os.Getenv("CI") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

func prepare(t testing.TB, binary string) *Server {
	t.Helper()
	dir := t.TempDir()
	s := &Server{t: t, Port: FreePort(t), log: filepath.Join(dir, "log")}
	s.Addr = "127.0.0.1:" + s.Port
	s.args = []string{"--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir, "--logfile", s.log}
	t.Cleanup(s.Kill)
	return s
}

// FreePort returns a port on which nobody listens, and far enough below the end of the
// range that a cluster's second port fits above it.
func FreePort(t testing.TB) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port < 55_000 {
			return fmt.Sprint(port)
		}
	}
}

// Run starts the server, or starts it again after [Server.Kill], and waits until it
// answers.
func (s *Server) Run() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		conn, err := net.Dial("tcp", s.Addr)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(s.log)
			s.t.Fatalf("redis-server %s does not answer: %v\n%s", strings.Join(s.args, " "), err, text)
		}
	}
}

// Do sends a command of plain words, and returns the answer if it is a text, or else the
// first line of it.
func (s *Server) Do(words ...string) string {
	s.t.Helper()
	answer, done := s.send(words)
	defer done()
	return s.text(answer)
}

// List sends a command of plain words, and returns the texts that it is answered.
func (s *Server) List(words ...string) []string {
	s.t.Helper()
	answer, done := s.send(words)
	defer done()
	var n int
	if _, err := fmt.Fscanf(answer, "*%d\r\n", &n); err != nil {
		s.t.Fatal(err)
	}
	var list []string
	for range n {
		list = append(list, s.text(answer))
	}
	return list
}

func (s *Server) send(words []string) (answer *bufio.Reader, done func()) {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		s.t.Fatal(err)
	}
	fmt.Fprintf(conn, "%s\r\n", strings.Join(words, " "))
	return bufio.NewReader(conn), func() { conn.Close() }
}

// text reads one text, or the line that stands in its place.
func (s *Server) text(answer *bufio.Reader) string {
	s.t.Helper()
	line, err := answer.ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	line = strings.TrimSpace(line)
	length, err := strconv.Atoi(strings.TrimPrefix(line, "$"))
	if err != nil || length < 0 || line[0] != '$' {
		return line
	}
	text := make([]byte, length+len("\r\n"))
	if _, err := io.ReadFull(answer, text); err != nil {
		s.t.Fatal(err)
	}
	return string(text[:length])
}

// IsMaster reports whether the server says that it is a master. It may be asked while it
// changes, when servers cut connections.
func (s *Server) IsMaster() bool {
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	fmt.Fprint(conn, "ROLE\r\n")
	var parts, length int
	var role string
	_, err = fmt.Fscanf(conn, "*%d\r\n$%d\r\n%s", &parts, &length, &role)
	return err == nil && role == "master"
}

// Info returns a section of what the server says of itself.
func (s *Server) Info(section string) string {
	s.t.Helper()
	return s.Do("INFO", section)
}

// Flush empties the server.
func (s *Server) Flush() {
	s.t.Helper()
	if got := s.Do("FLUSHALL"); got != "+OK" {
		s.t.Fatalf("flush: %s", got)
	}
}

// Pid is the number of the server's process.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Kill ends the server as a power cut would.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Kill()
	s.cmd.Wait()
	s.cmd = nil
}

// runs reports whether the server has been started and not killed since.
func (s *Server) runs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd != nil
}

// revive starts the server if it does not run.
func (s *Server) revive() {
	s.t.Helper()
	if !s.runs() {
		s.Run()
	}
}

// Stop freezes the server: it keeps its connections and answers nobody.
func (s *Server) Stop() { s.signal(syscall.SIGSTOP) }

// Continue ends a [Server.Stop].
func (s *Server) Continue() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Error(err)
	}
}
