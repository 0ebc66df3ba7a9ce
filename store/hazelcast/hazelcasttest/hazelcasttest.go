// Package hazelcasttest starts members of Hazelcast clusters for tests: on free ports of
// this machine, alone or with each other, gone when the test ends.
//
// A member is a Java program, [Jar], which make services brings. Where it or Java is
// missing a test is skipped, but fails where CI is set.
package hazelcasttest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Version is the version of Hazelcast that the tests run. .ci/fetch brings it.
const Version = "5.3.8"

// Jar is where the jar is: what SLUICE_HAZELCAST_JAR names, or sluice/hazelcast-VERSION.jar
// in the user's cache directory.
func Jar() string {
	if path := os.Getenv("SLUICE_HAZELCAST_JAR"); path != "" {
		return path
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "sluice", "hazelcast-"+Version+".jar")
}

// A Member is one process of a cluster.
type Member struct {
	Addr    string // host and port
	Cluster string // the cluster's name

	t   testing.TB
	log string

	mu  sync.Mutex
	cmd *exec.Cmd
}

// Start starts a cluster of n members and waits until each has found all others.
func Start(t testing.TB, n int) []*Member {
	t.Helper()
	find(t)
	var addrs []string
	for range n {
		addrs = append(addrs, freeAddr(t))
	}
	list := make([]*Member, n)
	for i := range list {
		list[i] = &Member{Addr: addrs[i], Cluster: "sluice-" + addrs[0][strings.IndexByte(addrs[0], ':')+1:], t: t}
		list[i].start(addrs)
	}
	for _, m := range list {
		m.await(fmt.Sprintf("Members {size:%d", n))
	}
	return list
}

// find skips or fails t where a member cannot be started.
func find(t testing.TB) {
	t.Helper()
	missing := ""
	if _, err := os.Stat(Jar()); err != nil {
		missing = "there is no " + Jar() + "; make services brings it"
	} else if _, err := exec.LookPath("java"); err != nil {
		missing = "there is no java; make services installs it"
	}
	switch {
	case missing == "":
	case os.Getenv("CI") != "":
		t.Fatal(missing)
	default:
		t.Skip(missing)
	}
}

// freeAddr returns an address at which nobody listens.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

const config = `<hazelcast xmlns="http://www.hazelcast.com/schema/config">
<cluster-name>%s</cluster-name>
<network><port auto-increment="false">%s</port><reuse-address>true</reuse-address>
<interfaces enabled="true"><interface>127.0.0.1</interface></interfaces>
<join><auto-detection enabled="false"/><multicast enabled="false"/><tcp-ip enabled="true">%s</tcp-ip></join></network>
</hazelcast>`

// start starts the process.
func (m *Member) start(addrs []string) {
	m.t.Helper()
	dir := m.t.TempDir()
	m.log = filepath.Join(dir, "log")
	_, port, _ := net.SplitHostPort(m.Addr)
	var others strings.Builder
	for _, a := range addrs {
		fmt.Fprintf(&others, "<member>%s</member>", a)
	}
	file := filepath.Join(dir, "member.xml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, m.Cluster, port, others.String()), 0o600); err != nil {
		m.t.Fatal(err)
	}
	out, err := os.Create(m.log)
	if err != nil {
		m.t.Fatal(err)
	}
	defer out.Close()
	m.cmd = exec.Command("java", "-Xmx256m", "-XX:+UseSerialGC",
		"-Dhazelcast.config="+file, "-Dhazelcast.phone.home.enabled=false", "-Dhazelcast.logging.type=jdk",
		"-Dhazelcast.initial.wait.seconds=0", "-Dhazelcast.wait.seconds.before.join=1",
		"-cp", Jar(), "com.hazelcast.core.server.HazelcastMemberStarter")
	m.cmd.Stdout, m.cmd.Stderr = out, out
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(m.Kill)
}

// await waits until the member has written text, and answers.
func (m *Member) await(text string) {
	m.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		said, _ := os.ReadFile(m.log)
		if strings.Contains(string(said), text) && strings.Contains(string(said), "is STARTED") {
			return
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("the member at %s did not say %q:\n%s", m.Addr, text, said)
		}
	}
}

// Kill ends the process as a crash would. Once it has ended it does nothing.
func (m *Member) Kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd != nil {
		_ = m.cmd.Process.Kill()
		_ = m.cmd.Wait()
		m.cmd = nil
	}
}

// Pause stops the process without ending it, and waits until it stands still.
func (m *Member) Pause() {
	m.t.Helper()
	m.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(m.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		m.t.Fatalf("the member at %s does not stop: %v", m.Addr, err)
	}
}

// Resume lets it go on.
func (m *Member) Resume() { m.signal(syscall.SIGCONT) }

func (m *Member) signal(sig syscall.Signal) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.cmd.Process.Signal(sig); err != nil {
		m.t.Fatal(err)
	}
}
