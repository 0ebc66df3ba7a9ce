package main

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	vegeta "github.com/tsenart/vegeta/v12/lib"
)

const examples = "../../examples/"

// A share is what one caller of examples/spector.yaml is entitled to.
type share struct {
	name        string
	header      http.Header
	rate, burst float64
}

// TestShares is the acceptance: sluice runs with the files of examples in front of a
// real server, and each kind of caller asks for more than its tier gives. What it gets
// is the rate times the time, and the burst: at least 0.99 of that and never more.
// ACCEPTANCE=full measures larger tiers, for 30 s each.
func TestShares(t *testing.T) {
	span := 2 * time.Second
	shares := []share{
		{"API key", caller("X-Api-Key", key(t, "try-standard")), 100, 200},
		{"JWT", caller("Authorization", "Bearer "+token(t, "ROLE_USER")), 100, 200},
		{"tenant", caller("X-Tenant-Id", "acme"), 100, 200},
		{"IP", caller("X-Forwarded-For", "203.0.113.9"), 10, 20},
	}
	if os.Getenv("ACCEPTANCE") == "full" {
		span = 30 * time.Second
		shares = append(shares,
			share{"API key, premium", caller("X-Api-Key", key(t, "try-premium")), 500, 1000},
			share{"API key, system", caller("X-Api-Key", key(t, "try-system")), 2000, 5000},
			share{"JWT, premium", caller("Authorization", "Bearer "+token(t, "ROLE_PREMIUM")), 500, 1000})
	}
	for _, server := range []struct {
		name  string
		start func(*testing.T) string
	}{{"our own server", ownServer}, {"nginx", nginx}} {
		t.Run(server.name, func(t *testing.T) {
			gate := sluiceInFront(t, server.start(t))
			for _, s := range shares {
				t.Run(s.name, func(t *testing.T) { measure(t, gate, s, span) })
			}
		})
	}
}

func caller(name, value string) http.Header { return http.Header{name: {value}} }

// measure asks for more than the share for a span, or as long as nothing is refused: on
// a busy machine it takes longer to use up a burst.
func measure(t *testing.T, gate string, s share, span time.Duration) {
	ask := max(250, int(s.rate*1.1+s.burst/span.Seconds()*1.5)) // so often that no unit lies idle for long
	attacker := vegeta.NewAttacker(vegeta.Timeout(10 * time.Second))
	target := vegeta.NewStaticTargeter(vegeta.Target{Method: "GET", URL: gate + "/", Header: s.header})
	var admitted, refused int
	var first, firstEnd, last, lastEnd time.Time
	for r := range attacker.Attack(target, vegeta.Rate{Freq: ask, Per: time.Second}, 0, s.name) {
		if first.IsZero() || r.Timestamp.Before(first) {
			first, firstEnd = r.Timestamp, r.End()
		}
		switch {
		case r.Error == "" && r.Code == http.StatusOK:
			admitted++
			if r.End().After(lastEnd) {
				last, lastEnd = r.Timestamp, r.End()
			}
		case r.Code == http.StatusTooManyRequests:
			refused++
		default:
			t.Fatalf("a request failed: %d %s", r.Code, r.Error)
		}
		if took := r.Timestamp.Sub(first); took > span && refused > 0 || took > 10*span {
			attacker.Stop()
		}
	}
	// A request is decided between its sending and its answer. What came back from the
	// sending of the first to the answer of the last is the most that may have passed, what
	// came back from the answer of the first to the sending of the last is the least.
	most := s.burst + s.rate*lastEnd.Sub(first).Seconds()
	least := s.burst + s.rate*last.Sub(firstEnd).Seconds()
	t.Logf("asked %d/s for %v: %d admitted, %d refused; entitled to %.1f to %.1f; ratio %.4f",
		ask, lastEnd.Sub(first).Round(time.Millisecond), admitted, refused, least, most, float64(admitted)/most)
	if n := float64(admitted); n > most || n < 0.99*least {
		t.Errorf("%d were admitted, want 0.99 of %.1f to %.1f", admitted, least, most)
	}
	if refused == 0 {
		t.Error("nothing was refused: the limit was never reached and the ratio says nothing")
	}
}

// sluiceInFront starts the command with the files of examples, in a process of its own.
func sluiceInFront(t *testing.T, upstream string) (gate string) {
	t.Helper()
	gate, admin := freeAddress(t), freeAddress(t)
	cmd := exec.Command("sluice", "serve", "--config", examples+"spector.yaml", "--config", examples+"local.yaml",
		"--set", "listen.gate="+gate, "--set", "listen.admin="+admin, "--set", "upstreams.0.url="+upstream)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	background(t, cmd, "http://"+admin+"/actuator/health")
	return "http://" + gate
}

// background runs a command until the test ends, and returns when url answers.
func background(t *testing.T, cmd *exec.Cmd, url string) {
	t.Helper()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("%s ends with %v and says:\n%s", cmd.Path, err, &out)
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if text, err := ask("GET", url, http.Header{}); err == nil && strings.Contains(text, "200 OK") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer at %s", cmd.Path, url)
		}
	}
}

func ownServer(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "own") }))
	t.Cleanup(s.Close)
	return s.URL
}

// nginx starts Debian's nginx. Without one the test cannot be made, which in CI is a
// failure: .ci/services installs it.
func nginx(t *testing.T) string {
	if _, err := exec.LookPath("nginx"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no nginx; install nginx-light")
		}
		t.Skip("there is no nginx; install nginx-light")
	}
	dir, address := t.TempDir(), freeAddress(t)
	conf := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr;
events {}
http {
	access_log off; keepalive_requests 1000000;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	server { listen %[2]s; location / { return 200 "nginx\n"; } }
}`, dir, address)
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	background(t, exec.Command("nginx", "-p", dir, "-e", "stderr", "-c", path), "http://"+address)
	return "http://" + address
}

// key returns the key of examples/local.keys with that name: the comment above it.
func key(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(examples + "local.keys")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if strings.Contains(line, `"name":"`+name+`"`) {
			return strings.TrimPrefix(lines[i-1], "# ")
		}
	}
	t.Fatalf("examples/local.keys has no key %q", name)
	return ""
}

// token returns a token of the issuer in examples/local.yaml.
func token(t *testing.T, role string) string {
	t.Helper()
	text, err := os.ReadFile(examples + "local.jwt-key.pem")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	tok := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": "https://issuer.example", "aud": "sluice", "sub": "alice", "roles": []string{role},
		"exp": time.Now().Add(time.Hour).Unix(),
	})
	tok.Header["kid"] = "local"
	signed, err := tok.SignedString(private.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}
