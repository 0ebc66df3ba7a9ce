package wire

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/sluicegate/sluice"
)

// callRefused makes a call with Google's client to a server that refuses it.
func callRefused(t *testing.T, ref *sluice.Refusal) (*status.Status, metadata.MD) {
	t.Helper()
	w := mustNew(t, Options{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.Refuse(rw, r, ref) }))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	defer srv.Close()
	conn, err := grpc.NewClient(strings.TrimPrefix(srv.URL, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var trailer metadata.MD
	err = conn.Invoke(ctx, "/pkg.Service/Method", &emptypb.Empty{}, &emptypb.Empty{}, grpc.Trailer(&trailer))
	return status.Convert(err), trailer
}

func retryDelay(s *status.Status) (time.Duration, bool) {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.RetryDelay.AsDuration(), true
		}
	}
	return 0, false
}

func TestGRPC(t *testing.T) {
	tests := []struct {
		name     string
		ref      *sluice.Refusal
		code     codes.Code
		delay    time.Duration
		pushback string
	}{
		{"I-086 rate", rate(6612*time.Millisecond+1, burst), codes.ResourceExhausted, 6612*time.Millisecond + 1, "6613"},
		{"whole seconds", rate(2*time.Second, burst), codes.ResourceExhausted, 2 * time.Second, "2000"},
		{"queue", &sluice.Refusal{Reason: sluice.ReasonQueueFull, Rule: "q"}, codes.Unavailable, time.Second, "1000"},
		{"for good", &sluice.Refusal{Reason: sluice.ReasonDenied, Rule: "d", Permanent: true}, codes.PermissionDenied, 0, "-1"},
		{"invalid", &sluice.Refusal{Reason: sluice.ReasonInvalid, Permanent: true}, codes.InvalidArgument, 0, "-1"},
		{"a year", rate(365*24*time.Hour, burst), codes.ResourceExhausted, 365 * 24 * time.Hour, "2147483647"},
		{"percent and UTF-8", rate(time.Second, sluice.Level{Rule: "100%\u00fc", Refused: true}), codes.ResourceExhausted, time.Second, "1000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, trailer := callRefused(t, tt.ref)
			want := string(appendReason(nil, tt.ref, waitOf(tt.ref)))
			if s.Code() != tt.code || s.Message() != want {
				t.Errorf("%v %q; want %v %q", s.Code(), s.Message(), tt.code, want)
			}
			if delay, ok := retryDelay(s); delay != tt.delay || ok != (tt.delay > 0) {
				t.Errorf("RetryInfo %v, %v; want %v", delay, ok, tt.delay)
			}
			if got := trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || got[0] != tt.pushback {
				t.Errorf("pushback %q, want %s", got, tt.pushback)
			}
		})
	}
}

func TestGRPCIsTrailersOnly(t *testing.T) {
	r := httptest.NewRequest("POST", "/pkg.Service/Method", nil)
	r.Header.Set("Content-Type", "application/grpc+proto")
	rec := httptest.NewRecorder()
	mustNew(t, Options{}).Refuse(rec, r, rate(time.Second, sluice.Level{Rule: "50%", Refused: true}))
	if rec.Code != 200 || rec.Body.Len() > 0 {
		t.Errorf("2.7: %d %q", rec.Code, rec.Body)
	}
	check(t, rec.Header(), map[string]string{"Content-Type": "application/grpc+proto", "Grpc-Status": "8", "Cache-Control": "no-store"})
	message, err := url.PathUnescape(rec.Header().Get("Grpc-Message"))
	if err != nil || !strings.HasPrefix(message, `Limit "50%" `) || !strings.Contains(rec.Header().Get("Grpc-Message"), "50%25") {
		t.Errorf("2.7: message %q, %v", message, err)
	}
}
