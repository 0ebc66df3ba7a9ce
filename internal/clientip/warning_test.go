package clientip

import (
	"net/http"
	"net/netip"
	"slices"
	"testing"
)

func TestWarnings(t *testing.T) {
	everybody := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	disagree := http.Header{"X-Forwarded-For": {"198.51.100.7"}, "Forwarded": {"for=1.2.3.4"}}
	agree := http.Header{"X-Forwarded-For": {"198.51.100.7"}, "Forwarded": {"for=198.51.100.7"}}
	type request struct {
		peer  string
		h     http.Header
		times int
	}
	tests := []struct {
		name     string
		o        Options
		requests []request
		want     []string
	}{
		{"I-006 private peer, nobody trusted", Options{}, []request{{"10.0.0.1:1", xff("1.1.1.1"), 3}}, []string{"SLUICE_W101"}},
		{"I-006 loopback peer", Options{}, []request{{"127.0.0.1:1", rfc7239("for=1.1.1.1"), 1}}, []string{"SLUICE_W101"}},
		{"I-006 public peer", Options{}, []request{{"9.9.9.9:1", xff("1.1.1.1"), 3}}, nil},
		{"I-006 private peer, no header", Options{}, []request{{"10.0.0.1:1", nil, 3}}, nil},
		{"everybody trusted", Options{Trusted: everybody}, nil, []string{"SLUICE_W102"}},
		{"I-004 headers disagree", Options{Trusted: proxies()}, []request{{"10.0.0.1:1", disagree, 3}}, []string{"SLUICE_W103"}},
		{"I-004 the other way round", Options{Trusted: proxies(), Header: "Forwarded"}, []request{{"10.0.0.1:1", disagree, 3}}, []string{"SLUICE_W103"}},
		{"headers agree", Options{Trusted: proxies()}, []request{{"10.0.0.1:1", agree, 3}}, nil},
		{"headers of a stranger disagree", Options{Trusted: proxies()}, []request{{"9.9.9.9:1", disagree, 3}}, nil},
		{"header never seen", Options{Trusted: proxies()}, []request{{"10.0.0.1:1", nil, 2500}}, []string{"SLUICE_W104"}},
		{"header not seen yet", Options{Trusted: proxies()}, []request{{"10.0.0.1:1", nil, 999}}, nil},
		{"header seen once", Options{Trusted: proxies()},
			[]request{{"10.0.0.1:1", xff("1.1.1.1"), 1}, {"10.0.0.1:1", nil, 2000}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			tt.o.Warn = func(w Warning) { got = append(got, w.Code) }
			r := mustNew(t, tt.o)
			for _, req := range tt.requests {
				for range req.times {
					r.Resolve(req.peer, req.h)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("warnings %v, want %v", got, tt.want)
			}
		})
	}
}

func TestClaims(t *testing.T) {
	r := mustNew(t, Options{Header: "X-My-Edge"})
	for name, want := range map[string]bool{
		"X-Real-IP": true, "x_real_ip": true, "X_Forwarded_For": true, "True-Client-Ip": true, // I-002
		"X-My-Edge": true, "X-My_Edge": true, "X-Tenant-Id": false, "X-Forwarded-Proto": false,
	} {
		if got := r.Claims(name); got != want {
			t.Errorf("I-002: %s claims an address: %v", name, got)
		}
	}
}

func TestExplain(t *testing.T) {
	r := mustNew(t, Options{Trusted: proxies()})
	h := http.Header{"X-Forwarded-For": {"1.1.1.1, 198.51.100.7, 10.0.0.2"}, "X-Real-Ip": {"6.6.6.6"}, "Accept": {"*/*"}}
	got := r.Explain("10.0.0.1:5000", h)
	if got.Peer != "10.0.0.1, a trusted proxy" || got.Header != "X-Forwarded-For" || got.Identity != "ip:198.51.100.7" {
		t.Errorf("%+v", got)
	}
	if want := []Hop{{"10.0.0.2", trusted}, {"198.51.100.7", untrusted}}; !slices.Equal(got.Hops, want) {
		t.Errorf("hops %v, want %v", got.Hops, want)
	}
	if want := []string{"X-Real-Ip"}; !slices.Equal(got.Ignored, want) {
		t.Errorf("ignored %v, want %v", got.Ignored, want)
	}
	stranger := r.Explain("9.9.9.9:1", h)
	if want := []string{"X-Forwarded-For", "X-Real-Ip"}; !slices.Equal(stranger.Ignored, want) || stranger.Header != "" {
		t.Errorf("I-002: %+v", stranger)
	}
}
