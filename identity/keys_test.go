package identity

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var testSecret = []byte("0123456789abcdef-test-secret")

// header makes a header of names and values in turn.
func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func newTestKey(t testing.TB, secret []byte, rec KeyRecord) (raw, line string) {
	t.Helper()
	raw, b, err := NewKey(secret, rec)
	if err != nil {
		t.Fatal(err)
	}
	return raw, string(b)
}

func readKeys(t testing.TB, text string, secrets ...[]byte) *Keys {
	t.Helper()
	k, err := ReadKeys(strings.NewReader(text), "keys.jsonl", secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestNewKey(t *testing.T) {
	raw, line := newTestKey(t, testSecret, KeyRecord{Name: "ci"})
	other, _ := newTestKey(t, testSecret, KeyRecord{})
	if raw == other || !strings.HasPrefix(raw, KeyPrefix) || len(raw) < len(KeyPrefix)+43 {
		t.Errorf("keys %q and %q are not two random ones", raw, other)
	}
	if strings.Contains(line, raw) || !strings.HasSuffix(line, "\n") || strings.Count(line, "\n") != 1 {
		t.Errorf("B-3 the record is no line without the key: %q", line)
	}
}

func TestLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expires := time.Now().Add(time.Hour)
		good, line1 := newTestKey(t, testSecret, KeyRecord{Name: "a", Tier: "premium", Tenant: "acme", Groups: []string{"role:x"}})
		off, line2 := newTestKey(t, testSecret, KeyRecord{Disabled: true})
		brief, line3 := newTestKey(t, testSecret, KeyRecord{Expires: &expires})
		k := readKeys(t, "# keys\n\n"+line1+line2+line3, testSecret)
		if k.Len() != 3 {
			t.Errorf("got %d keys", k.Len())
		}
		p, err := k.Lookup(good)
		if err != nil || p.Tier != "premium" || p.Tenant != "tenant:acme" || p.Label != "a" || len(p.Groups) != 1 {
			t.Errorf("got %+v, %v", p, err)
		}
		if hex, ok := strings.CutPrefix(p.Subject, "apikey:"); !ok || len(hex) != 32 || strings.Contains(good, hex) {
			t.Errorf("B-3 I-032 subject %q is not 32 digits of a digest", p.Subject)
		}
		for _, c := range []struct {
			raw  string
			want error
		}{
			{off, ErrDisabled}, {brief, nil}, {good + "x", ErrUnknownKey}, {good[:len(good)-1], ErrUnknownKey},
			{"", ErrUnknownKey}, {strings.Repeat("x", maxCredential+1), ErrTooLong},
		} {
			if _, err := k.Lookup(c.raw); !errors.Is(err, c.want) {
				t.Errorf("%.20q: got %v, want %v", c.raw, err, c.want)
			}
		}
		time.Sleep(time.Hour)
		if _, err := k.Lookup(brief); !errors.Is(err, ErrExpired) {
			t.Errorf("at its end: got %v", err)
		}
	})
}

func TestSecretRotation(t *testing.T) {
	old := []byte("an-older-secret-of-the-server")
	before, line1 := newTestKey(t, old, KeyRecord{})
	after, line2 := newTestKey(t, testSecret, KeyRecord{})
	k := readKeys(t, line1+line2, testSecret, old)
	for _, raw := range []string{before, after} {
		if _, err := k.Lookup(raw); err != nil {
			t.Error(err)
		}
	}
	if _, err := readKeys(t, line1+line2, testSecret).Lookup(before); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("without the old secret: got %v", err)
	}
}

func BenchmarkLookup(b *testing.B) {
	raw, line := newTestKey(b, testSecret, KeyRecord{})
	k := readKeys(b, line, testSecret)
	b.ReportAllocs()
	for b.Loop() {
		k.Lookup(raw)
	}
}

func TestBadKeyFiles(t *testing.T) {
	_, line := newTestKey(t, testSecret, KeyRecord{})
	for _, c := range []struct{ name, text, want string }{
		{"no JSON", line + "nonsense\n", "keys.jsonl:2: not a key record"},
		{"unknown field", `{"digest":"00","teir":"x"}`, `unknown field "teir"`},
		{"short digest", `{"digest":"00"}`, "64 hex digits"},
		{"the same key twice", line + line, "keys.jsonl:2: this key stands in the file already"},
		{"two records on a line", strings.TrimSpace(line) + line, "more than one record"},
		{"blank tenant", strings.Replace(line, "}", `,"tenant":"a b"}`, 1), `tenant "a b"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := ReadKeys(strings.NewReader(c.text), "keys.jsonl", testSecret); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want something with %q", err, c.want)
			}
		})
	}
	if _, err := ReadKeys(strings.NewReader(line), "keys.jsonl"); err == nil {
		t.Error("a key file without a secret was read")
	}
}

func TestCheckSecret(t *testing.T) {
	for _, weak := range []string{"", "short", "spector-dev-key", "spector-dev-key!", "SPECTOR-DEV-KEY-0", "changemechangeme", "aaaaaaaaaaaaaaaaaaaa", "password12345678"} {
		if CheckSecret([]byte(weak)) == nil {
			t.Errorf("B-W6 %q was taken for a secret", weak)
		}
	}
	for _, good := range []string{string(testSecret), "Zq9.vK2-pL7!mN4x", strings.Repeat("0123456789abcdef", 4)} {
		if err := CheckSecret([]byte(good)); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

func TestKeyRecordSpelling(t *testing.T) {
	b, err := json.Marshal(KeyRecord{Digest: "d", Name: "n", Tier: "t", Tenant: "u", Groups: []string{"g"}, Expires: new(time.Unix(0, 0).UTC()), Disabled: true})
	want := `{"digest":"d","name":"n","tier":"t","tenant":"u","groups":["g"],"expires":"1970-01-01T00:00:00Z","disabled":true}`
	if err != nil || string(b) != want {
		t.Errorf("got %s, %v", b, err)
	}
}
