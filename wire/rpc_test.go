package wire

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
)

// refuseRPC returns the answer to a body that asks for a tool.
func refuseRPC(t *testing.T, rpc RPC, ref *sluice.Refusal) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	mustNew(t, Options{}).RefuseRPC(rec, httptest.NewRequest("POST", "/mcp", nil), ref, rpc)
	return rec
}

func mustParse(t *testing.T, body string) RPC {
	t.Helper()
	rpc, err := ParseRPC([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return rpc
}

func TestRefuseRPC(t *testing.T) {
	ref := rate(6612*time.Millisecond, burst)
	rec := refuseRPC(t, mustParse(t, `{"jsonrpc":"2.0","id":"x-1","method":"tools/call"}`), ref)
	const want = `{"jsonrpc":"2.0","id":"x-1","error":{"code":-32029,` + // C-33
		`"message":"Tool admission refused: Limit \"burst\" is used up; try again in 7 seconds.",` +
		`"data":{"reason":"rate","ruleId":"burst","retryAfterMs":6612}}}` + "\n"
	if got := rec.Body.String(); got != want {
		t.Errorf("C-33: %s\nwant %s", got, want)
	}
	if rec.Code != 200 {
		t.Errorf("D12: status %d", rec.Code)
	}
	check(t, rec.Header(), map[string]string{ // B-W25
		"Content-Type": "application/json", "Retry-After": "7", "Cache-Control": "no-store",
		"X-RateLimit-Remaining": "0", "RateLimit": `"burst";r=0;t=7`,
	})
}

func TestRPCEchoesIDs(t *testing.T) {
	for _, id := range []string{`1`, `-0`, `1.50`, `1e3`, `12345678901234567890`, `"a\u0062\/"`, `""`, `null`, `true`, `[1, 2]`, `{"a": 1}`} {
		rpc := mustParse(t, `{"id":`+id+`,"ID":7,"method":"m","params":{"id":9}}`)
		rec := refuseRPC(t, rpc, rate(time.Second, burst))
		if !strings.HasPrefix(rec.Body.String(), `{"jsonrpc":"2.0","id":`+id+`,"error"`) || !json.Valid(rec.Body.Bytes()) {
			t.Errorf("C-33 id %s: %s", id, rec.Body)
		}
	}
}

func TestRPCEras(t *testing.T) {
	for _, tt := range []struct {
		rpc    RPC
		code   string
		status int
	}{
		{RPC{}, "-32029", 200},
		{RPC{Version: "2024-11-05"}, "-32029", 200},
		{RPC{Version: "2025-11-25"}, "-32029", 200},
		{RPC{Version: "2026-07-28"}, "429", 200},
		{RPC{Version: "2027-01-01"}, "429", 200},
		{RPC{Version: "draft"}, "-32029", 200},
		{RPC{Version: "2026-07-28", Code: -32010, Status: 429}, "-32010", 429},
	} {
		rec := refuseRPC(t, tt.rpc, rate(time.Second, burst))
		if !strings.HasPrefix(rec.Body.String(), `{"jsonrpc":"2.0","id":null,"error":{"code":`+tt.code+`,`) || rec.Code != tt.status {
			t.Errorf("D12 %+v: %d %s", tt.rpc, rec.Code, rec.Body)
		}
	}
}

func TestRPCBatch(t *testing.T) {
	rpc := mustParse(t, ` [{"id":1,"method":"a"},{"method":"note"},{"id":2,"result":{}},{"id":"b","method":"c"}]`)
	rec := refuseRPC(t, rpc, rate(time.Second, burst))
	var got []struct {
		ID    json.RawMessage
		Error struct{ Code int }
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
		t.Fatalf("I-060: %v: %s", err, rec.Body)
	}
	if len(got) != 2 || string(got[0].ID) != "1" || string(got[1].ID) != `"b"` || got[1].Error.Code != -32029 {
		t.Errorf("I-060: %s", rec.Body)
	}
}

func TestRPCNotification(t *testing.T) {
	for _, body := range []string{`{"method":"notifications/x"}`, `[{"method":"notifications/x"}]`, `{"id":1,"result":{}}`} {
		rec := refuseRPC(t, mustParse(t, body), rate(time.Second, burst))
		if rec.Code != 429 || !strings.HasPrefix(rec.Body.String(), `{"jsonrpc":"2.0","error"`) {
			t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
		}
	}
}

func TestRPCDataLeavesOutWhatIsNotKnown(t *testing.T) {
	rec := refuseRPC(t, RPC{}, &sluice.Refusal{Reason: sluice.ReasonInvalid, Permanent: true})
	if !strings.HasSuffix(rec.Body.String(), `"data":{"reason":"invalid"}}}`+"\n") {
		t.Errorf("C-33: %s", rec.Body)
	}
}

func TestParseRPCRefuses(t *testing.T) {
	for _, body := range []string{"", "null", "1", `"x"`, "{", "[1]", `[{"id":1}`, "[null", "{}{}"} {
		if rpc, err := ParseRPC([]byte(body)); err == nil || rpc.Read {
			t.Errorf("%q: %+v, %v", body, rpc, err)
		}
	}
}
