package hazelcast_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"testing"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/hazelcast"
	"github.com/sluicegate/sluice/store/hazelcast/hazelcasttest"
)

// TestTLS speaks TLS to what stands in front of a member: a member itself does so only in
// the edition that is paid for.
func TestTLS(t *testing.T) {
	member := hazelcasttest.Start(t, 1)[0]
	web := httptest.NewTLSServer(nil) // for its certificate, which is for 127.0.0.1
	t.Cleanup(web.Close)
	front, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { front.Close() })
	go func() {
		for {
			conn, err := front.Accept()
			if err != nil {
				return // closed
			}
			go pass(conn, member.Addr)
		}
	}()
	o := options(member)
	o.Addresses, o.TLS = []string{front.Addr().String()}, &tls.Config{RootCAs: x509.NewCertPool()}
	o.TLS.RootCAs.AddCert(web.Certificate())
	s := open(t, o)
	if res, err := do(s, ledger.Take, cell(1, limit.Slots(1))); err != nil || res.Status != ledger.Done {
		t.Error(res, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	o.TLS = &tls.Config{} // knows nobody
	if s, err := hazelcast.Open(t.Context(), o); err == nil {
		s.Close()
		t.Error("a certificate was believed that nobody vouches for")
	} else {
		t.Log(err)
	}
}

// pass passes on what is said between conn and the member at addr.
func pass(conn net.Conn, addr string) {
	defer conn.Close()
	member, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer member.Close()
	go func() {
		_, _ = io.Copy(member, conn)
		member.Close()
	}()
	_, _ = io.Copy(conn, member)
}
