package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// signer is somebody with keys.
type signer struct {
	ec  *ecdsa.PrivateKey
	rsa *rsa.PrivateKey
}

func newSigner(t testing.TB) *signer {
	t.Helper()
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{e, r}
}

// set is the signer's public key set; the names of its keys end in suffix.
func (s *signer) set(suffix string) []byte {
	b64 := func(n *big.Int, size int) string {
		return base64.RawURLEncoding.EncodeToString(n.FillBytes(make([]byte, size)))
	}
	return fmt.Appendf(nil, `{"keys":[
		{"kty":"EC","kid":"ec%[1]s","use":"sig","alg":"ES256","crv":"P-256","x":%[2]q,"y":%[3]q},
		{"kty":"RSA","kid":"rsa%[1]s","use":"sig","n":%[4]q,"e":"AQAB"}]}`,
		suffix, b64(s.ec.X, 32), b64(s.ec.Y, 32), b64(s.rsa.N, 256))
}

// claims are good ones, with changes. A nil value takes a claim away.
func claims(changes jwt.MapClaims) jwt.MapClaims {
	c := jwt.MapClaims{"iss": "https://id.example", "sub": "alice", "aud": "api", "exp": time.Now().Add(time.Hour).Unix()}
	for k, v := range changes {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

// sign makes a token. head are further header fields.
func sign(t testing.TB, method jwt.SigningMethod, key any, kid string, c jwt.MapClaims, head ...string) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	token.Header["kid"] = kid
	for i := 0; i < len(head); i += 2 {
		token.Header[head[i]] = []string{head[i+1]}
	}
	raw, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// setFile writes a key set to a file.
func setFile(t testing.TB, set []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(path, set, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newResolver(t testing.TB, o Options) *Resolver {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	r, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func bearer(raw string) http.Header { return header("Authorization", "Bearer "+raw) }

func TestTokens(t *testing.T) {
	s, stranger := newSigner(t), newSigner(t)
	r := newResolver(t, Options{
		Tiers: []string{"standard", "premium", "system"},
		Issuers: []Issuer{{
			Issuer: "https://id.example", Audience: []string{"api"}, JWKS: setFile(t, s.set("")), Algorithms: []string{"RS256", "ES256"},
			TierClaim: "app.plan", RolesClaim: "roles", TenantClaim: "tid",
			RoleTiers: []RoleTier{{"ROLE_ADMIN", "system"}, {"ROLE_PREMIUM", "premium"}},
		}},
	})
	es := func(changes jwt.MapClaims, head ...string) string {
		return sign(t, jwt.SigningMethodES256, s.ec, "ec", claims(changes), head...)
	}
	for _, c := range []struct {
		name string
		raw  string
		want Principal
	}{
		{"B-4 a subject", es(nil), Principal{Subject: "user:alice", Tier: "standard"}},
		{"another key", sign(t, jwt.SigningMethodRS256, s.rsa, "rsa", claims(nil)), Principal{Subject: "user:alice", Tier: "standard"}},
		{"B-7 a tier claim", es(jwt.MapClaims{"app": map[string]any{"plan": "premium"}}), Principal{Subject: "user:alice", Tier: "premium"}},
		{"B-9 a tier that does not exist", es(jwt.MapClaims{"app": map[string]any{"plan": "gold"}}), Principal{Subject: "user:alice", Tier: "standard"}},
		{"B-7 the highest role, whatever the order", es(jwt.MapClaims{"roles": []string{"ROLE_PREMIUM", "ROLE_ADMIN"}}),
			Principal{Subject: "user:alice", Tier: "system", Groups: []string{"role:ROLE_PREMIUM", "role:ROLE_ADMIN"}}},
		{"roles as a text", es(jwt.MapClaims{"roles": "a ROLE_PREMIUM"}),
			Principal{Subject: "user:alice", Tier: "premium", Groups: []string{"role:a", "role:ROLE_PREMIUM"}}},
		{"a tenant", es(jwt.MapClaims{"tid": "acme"}), Principal{Subject: "user:alice", Tier: "standard", Tenant: "tenant:acme"}},
		{"one of several audiences", es(jwt.MapClaims{"aud": []string{"x", "api"}}), Principal{Subject: "user:alice", Tier: "standard"}},
		{"within the leeway", es(jwt.MapClaims{"exp": time.Now().Add(-20 * time.Second).Unix()}), Principal{Subject: "user:alice", Tier: "standard"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := r.Resolve(t.Context(), bearer(c.raw), false)
			if got := fmt.Sprintf("%+v", f.Principal); got != fmt.Sprintf("%+v", c.want) || !f.Verified || f.Err != nil {
				t.Errorf("got %s, %v, %v; want %+v", got, f.Verified, f.Err, c.want)
			}
		})
	}
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, claims(nil)).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	good := es(nil)
	for _, c := range []struct {
		name string
		raw  string
		want error
	}{
		{"I-026 a stranger's signature", sign(t, jwt.SigningMethodES256, stranger.ec, "ec", claims(jwt.MapClaims{"sub": "bob"})), ErrSignature},
		{"no signature", unsigned, ErrAlgorithm},
		{"a public key as HMAC secret", sign(t, jwt.SigningMethodHS256, s.set(""), "rsa", claims(nil)), ErrAlgorithm},
		{"an algorithm that is not allowed", sign(t, jwt.SigningMethodPS256, s.rsa, "rsa", claims(nil)), ErrAlgorithm},
		{"an allowed algorithm with another's key", sign(t, jwt.SigningMethodRS256, s.rsa, "ec", claims(nil)), ErrSignature},
		{"a key nobody knows", sign(t, jwt.SigningMethodES256, s.ec, "other", claims(nil)), ErrSignature},
		{"a changed payload", good[:strings.Index(good, ".")+1] + "eyJzdWIiOiJib2IifQ" + good[strings.LastIndex(good, "."):], ErrIssuer},
		{"another issuer", es(jwt.MapClaims{"iss": "https://evil.example"}), ErrIssuer},
		{"no issuer", es(jwt.MapClaims{"iss": nil}), ErrIssuer},
		{"another audience", es(jwt.MapClaims{"aud": "other"}), ErrAudience},
		{"expired", es(jwt.MapClaims{"exp": time.Now().Add(-2 * time.Minute).Unix()}), ErrExpired},
		{"without an end", es(jwt.MapClaims{"exp": nil}), ErrMalformed},
		{"not yet valid", es(jwt.MapClaims{"nbf": time.Now().Add(2 * time.Minute).Unix()}), ErrNotYet},
		{"a critical header nobody understands", es(nil, "crit", "b64"), ErrCritical},
		{"no subject", es(jwt.MapClaims{"sub": nil}), ErrMalformed},
		{"junk", "eyJhbGciOiJFUzI1NiJ9.x.y", ErrMalformed},
		{"too long", es(jwt.MapClaims{"x": strings.Repeat("x", maxCredential)}), ErrTooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := r.Resolve(t.Context(), bearer(c.raw), false)
			if f.Found() || !errors.Is(f.Err, c.want) {
				t.Errorf("got %+v, %v; want %v", f.Principal, f.Err, c.want)
			}
			if f.Err != nil && strings.Contains(f.Err.Error(), c.raw) {
				t.Errorf("the error holds the token: %v", f.Err)
			}
		})
	}
	t.Run("I-028 a refreshed token is the same caller", func(t *testing.T) {
		a := r.Resolve(t.Context(), bearer(es(jwt.MapClaims{"iat": 1})), false)
		b := r.Resolve(t.Context(), bearer(es(jwt.MapClaims{"iat": 2, "jti": "x"})), false)
		if a.Principal.Subject != b.Principal.Subject {
			t.Errorf("%q and %q", a.Principal.Subject, b.Principal.Subject)
		}
	})
	t.Run("a subject that cannot stand in a log is a digest", func(t *testing.T) {
		f := r.Resolve(t.Context(), bearer(es(jwt.MapClaims{"sub": "a b\n"})), false)
		if s := f.Principal.Subject; !strings.HasPrefix(s, "user:~") || len(s) != len("user:~")+32 {
			t.Errorf("got %q", s)
		}
	})
	t.Run("3.9 a bad token that comes again costs no verification", func(t *testing.T) {
		raw := sign(t, jwt.SigningMethodES256, stranger.ec, "ec", claims(jwt.MapClaims{"sub": "again"}))
		first := r.Resolve(t.Context(), bearer(raw), false)
		second := r.Resolve(t.Context(), bearer(raw), false)
		if !errors.Is(first.Err, ErrSignature) || !errors.Is(second.Err, ErrRepeated) {
			t.Errorf("got %v, then %v", first.Err, second.Err)
		}
	})
	t.Run("a token that is not valid yet may become so", func(t *testing.T) {
		raw := es(jwt.MapClaims{"nbf": time.Now().Add(2 * time.Minute).Unix()})
		for range 2 {
			if f := r.Resolve(t.Context(), bearer(raw), false); !errors.Is(f.Err, ErrNotYet) {
				t.Errorf("got %v", f.Err)
			}
		}
	})
}

func TestSeveralIssuers(t *testing.T) {
	a, b := newSigner(t), newSigner(t)
	issuers := []Issuer{
		{Issuer: "https://a.example", JWKS: setFile(t, a.set(""))},
		{Issuer: "https://b.example/realm", Name: "corp", JWKS: setFile(t, b.set(""))},
	}
	r := newResolver(t, Options{Issuers: issuers})
	resolve := func(s *signer, iss string) Finding {
		return r.Resolve(t.Context(), bearer(sign(t, jwt.SigningMethodES256, s.ec, "ec", claims(jwt.MapClaims{"iss": iss}))), false)
	}
	for _, c := range []struct {
		s       *signer
		iss     string
		subject string
	}{
		{a, "https://a.example", "user:a.example/alice"}, {b, "https://b.example/realm", "user:corp/alice"},
		{b, "https://a.example", ""}, // one issuer cannot sign for the other
	} {
		if f := resolve(c.s, c.iss); f.Principal.Subject != c.subject {
			t.Errorf("%s: got %q, %v; want %q", c.iss, f.Principal.Subject, f.Err, c.subject)
		}
	}
	issuers[1].Name = "a.example"
	if _, err := New(t.Context(), Options{Issuers: issuers}); err == nil || !strings.Contains(err.Error(), "needs a name") {
		t.Errorf("two issuers with one name: got %v", err)
	}
}

func TestKeySets(t *testing.T) {
	first, second := newSigner(t), newSigner(t)
	var set atomic.Pointer[[]byte]
	var fetches, status atomic.Int64
	status.Store(200)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetches.Add(1)
		w.WriteHeader(int(status.Load()))
		w.Write(*set.Load())
	}))
	defer server.Close()
	set.Store(new(first.set("1")))
	r := newResolver(t, Options{Issuers: []Issuer{{Issuer: "https://id.example", JWKS: server.URL}}})
	resolve := func(s *signer, kid string) error {
		return r.Resolve(t.Context(), bearer(sign(t, jwt.SigningMethodES256, s.ec, kid, claims(nil))), false).Err
	}
	if err := resolve(first, "ec1"); err != nil {
		t.Fatal(err)
	}
	set.Store(new(second.set("2")))
	if err := resolve(second, "ec2"); err != nil {
		t.Errorf("after a rotation: %v", err)
	}
	before := fetches.Load()
	for i := range 50 {
		resolve(first, fmt.Sprint("junk", i))
	}
	if n := fetches.Load() - before; n > 1 {
		t.Errorf("3.9 50 unknown key names caused %d fetches", n)
	}
	status.Store(500)
	if err := resolve(second, "ec2"); err != nil {
		t.Errorf("3.9 the last good keys do not outlive an outage: %v", err)
	}
	t.Run("an issuer that does not answer yet is no error", func(t *testing.T) {
		r := newResolver(t, Options{Issuers: []Issuer{{Issuer: "https://id.example", JWKS: server.URL}}})
		raw := sign(t, jwt.SigningMethodES256, second.ec, "ec2", claims(nil))
		status.Store(200)
		if f := r.Resolve(t.Context(), bearer(raw), false); f.Err != nil {
			t.Errorf("once it answers: %v", f.Err)
		}
	})
	t.Run("3.9 redirects are not followed", func(t *testing.T) {
		elsewhere := httptest.NewServer(http.RedirectHandler(server.URL, http.StatusFound))
		defer elsewhere.Close()
		before := fetches.Load()
		newResolver(t, Options{Issuers: []Issuer{{Issuer: "https://id.example", JWKS: elsewhere.URL}}})
		if n := fetches.Load() - before; n != 0 {
			t.Errorf("%d fetches through a redirect", n)
		}
	})
}

func TestBadIssuers(t *testing.T) {
	file := setFile(t, newSigner(t).set(""))
	for _, c := range []struct {
		name string
		i    Issuer
		want string
	}{
		{"no name", Issuer{JWKS: file}, "iss claim is missing"},
		{"no keys", Issuer{Issuer: "a"}, "key set is missing"},
		{"HMAC", Issuer{Issuer: "a", JWKS: file, Algorithms: []string{"HS256"}}, `"HS256" is not allowed`},
		{"none", Issuer{Issuer: "a", JWKS: file, Algorithms: []string{"none"}}, `"none" is not allowed`},
		{"clear text", Issuer{Issuer: "a", JWKS: "http://id.example/jwks"}, "must be https"},
		{"leeway", Issuer{Issuer: "a", JWKS: file, Leeway: time.Hour}, "not between"},
		{"no file", Issuer{Issuer: "a", JWKS: "/none"}, "no such file"},
		{"no set", Issuer{Issuer: "a", JWKS: setFile(t, []byte("x"))}, "reading"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(context.Background(), Options{Issuers: []Issuer{c.i}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want something with %q", err, c.want)
			}
		})
	}
}

func TestClaim(t *testing.T) {
	var c map[string]any
	if err := json.Unmarshal([]byte(`{"a":{"b":"deep"},"https://x.example/plan":"flat","n":1}`), &c); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"a.b": "deep", "https://x.example/plan": "flat", "n": "", "a": "", "a.c": "", "x.y": ""} {
		if got := claimText(c, path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestAmbiguousHeaders(t *testing.T) {
	raw, line := newTestKey(t, testSecret, KeyRecord{})
	r := newResolver(t, Options{Keys: readKeys(t, line, testSecret)})
	for _, h := range []http.Header{
		header("X-API-Key", raw, "X-API-Key", "other"),
		header("Authorization", "Bearer "+raw, "Authorization", "Bearer other"),
	} {
		if f := r.Resolve(t.Context(), h, false); f.Found() || !errors.Is(f.Err, ErrAmbiguous) || !r.Presents(h) {
			t.Errorf("%v: got %+v", h, f)
		}
	}
	nobody := newResolver(t, Options{})
	if f := nobody.Resolve(t.Context(), header("Authorization", "a b", "Authorization", "Bearer c"), false); f.Err != nil {
		t.Errorf("a resolver that judges nothing: %v", f.Err)
	}
}

func TestNoBearer(t *testing.T) {
	raw, line := newTestKey(t, testSecret, KeyRecord{})
	r := newResolver(t, Options{Keys: readKeys(t, line, testSecret), NoBearer: true})
	if f := r.Resolve(t.Context(), bearer(raw), false); f.Found() || f.Err != nil {
		t.Errorf("got %+v", f)
	}
	if f := r.Resolve(t.Context(), header("Authorization", "ApiKey "+raw), false); !f.Verified {
		t.Errorf("got %+v", f)
	}
}
