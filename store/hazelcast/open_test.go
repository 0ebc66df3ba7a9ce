package hazelcast_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/store/hazelcast"
	"github.com/sluicegate/sluice/store/hazelcast/hazelcasttest"
)

// TestOpenSays checks that what is wrong with the options is said in one line, in time.
func TestOpenSays(t *testing.T) {
	member := hazelcasttest.Start(t, 1)[0]
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, c := range []struct {
		name string
		o    hazelcast.Options
		want string
	}{
		{"no address", hazelcast.Options{}, "no address of a member was given; want host:port"},
		{"a bad address", hazelcast.Options{Addresses: []string{"host:port"}}, "host:port"},
		{"a bad name of the map", hazelcast.Options{Addresses: []string{member.Addr}, Map: "a/b"}, `"a/b" cannot be the name of the map`},
		{"another cluster", hazelcast.Options{Addresses: []string{member.Addr}, Cluster: "prod"}, `its name is not "prod"`},
		{"nobody listens", hazelcast.Options{Addresses: []string{closed.Addr().String()}}, "nobody listens at " + closed.Addr().String()},
		{"nobody answers", hazelcast.Options{Addresses: []string{silent.Addr().String()}}, "no member answers at " + silent.Addr().String()},
		{"TLS where there is none", hazelcast.Options{Addresses: []string{member.Addr}, Cluster: member.Cluster, TLS: &tls.Config{}}, "TLS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			s, err := hazelcast.Open(context.Background(), c.o)
			if err == nil {
				s.Close()
				t.Fatal("it opened")
			}
			text := err.Error()
			t.Log(text)
			if !strings.HasPrefix(text, "hazelcast: ") || strings.Contains(text, "\n") || !strings.Contains(text, c.want) {
				t.Errorf("said %q, want %q", text, c.want)
			}
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("said so after %v", took)
			}
		})
	}
}
