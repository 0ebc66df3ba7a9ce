package gate_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/identity"
	"github.com/sluicegate/sluice/store/memory"
)

// limitOf returns X-RateLimit-Limit, which tells the tier in these tests.
func limitOf(h http.Handler, r *http.Request) string {
	return do(h, r).Header.Get("X-RateLimit-Limit")
}

// tiers are rules whose limits tell them apart.
func tiers() []sluice.Rule {
	return []sluice.Rule{
		on(perHour("tier-anonymous", 20, "http"), sluice.Tier, "anonymous"),
		on(perHour("tier-standard", 200, "http"), sluice.Tier, "standard"),
		on(perHour("tier-premium", 1000, "http"), sluice.Tier, "premium"),
		on(perHour("tier-system", 5000, "http"), sluice.Tier, "system"),
	}
}

var tierNames = []string{"anonymous", "standard", "premium", "system"}

func TestAPIKeys(t *testing.T) {
	standard, line1 := newKey(t, identity.KeyRecord{Name: "a"})
	premium, line2 := newKey(t, identity.KeyRecord{Name: "b", Tier: "premium"})
	unheard, line3 := newKey(t, identity.KeyRecord{Name: "c", Tier: "gold"})
	system, line4 := newKey(t, identity.KeyRecord{Name: "d", Tier: "system"})
	o := gate.Options{Identity: identity.Options{Keys: keys(t, line1, line2, line3, line4), Tiers: tierNames}}

	t.Run("B-3 B-6 B-7 B-8 the key's record chooses the tier", func(t *testing.T) {
		h := newGate(t, open(t, tiers()...), o).Handler(ok)
		for _, c := range []struct{ key, limit string }{
			{standard, "200"}, {premium, "1000"}, {system, "5000"}, {"", "20"},
		} {
			expect(t, "limit", limitOf(h, request("GET", "/", "X-API-Key", c.key)), c.limit)
		}
	})
	t.Run("B-9 a tier that does not exist is the default one", func(t *testing.T) {
		h := newGate(t, open(t, tiers()...), o).Handler(ok)
		expect(t, "limit", limitOf(h, request("GET", "/", "X-API-Key", unheard)), "200")
	})
	t.Run("B-W5 I-029 one key is one bucket, whatever header carries it", func(t *testing.T) {
		h := newGate(t, open(t, perHour("key", 4, "http")), o).Handler(ok)
		got := statuses(h,
			request("GET", "/", "X-API-Key", standard), request("GET", "/", "Authorization", "Bearer "+standard),
			request("GET", "/", "Authorization", "ApiKey "+standard), request("GET", "/", "authorization", "bearer  "+standard),
			request("GET", "/", "Authorization", "Bearer "+standard), request("GET", "/", "X-API-Key", standard),
			request("GET", "/", "X-API-Key", premium))
		expectList(t, "statuses", got, []int{200, 200, 200, 200, 429, 429, 200})
	})
	t.Run("I-029 a scheme that is not Bearer carries nothing", func(t *testing.T) {
		h := newGate(t, open(t, tiers()...), o).Handler(ok)
		expect(t, "limit", limitOf(h, request("GET", "/", "Authorization", "xBearer "+standard)), "20")
	})
	t.Run("I-020 a random second credential changes nothing", func(t *testing.T) {
		h := newGate(t, open(t, perHour("key", 3, "http")), o).Handler(ok)
		n := admitted(h, 10, func(i int) *http.Request {
			return request("GET", "/", "Authorization", "Bearer "+standard, "X-API-Key", "junk"+strconv.Itoa(i))
		})
		expect(t, "admitted", n, 3)
	})
	t.Run("I-021 I-026 D9 an unverified key is its sender's address", func(t *testing.T) {
		store := memory.New(memory.Options{})
		defer store.Close()
		ctl, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{
			perHour("ip", 5, "http"), perHour("tenant", 5, "http", sluice.Subject, sluice.Tenant), perHour("failures", 2000, "auth-failure"),
		}}, store, sluice.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer ctl.Close()
		h := newGate(t, ctl, o).Handler(ok)
		defer func() {
			if n := store.Stats().Inserted; n != 3 {
				t.Errorf("%d cells were made for 1000 junk keys of one address, want one for each rule", n)
			}
		}()
		n := admitted(h, 1000, func(i int) *http.Request {
			return request("GET", "/", "Authorization", "Bearer junk"+strconv.Itoa(i))
		})
		expect(t, "admitted", n, 5)
	})
	t.Run("D9 reject answers 401 and nothing is debited", func(t *testing.T) {
		o := o
		o.Identity.Unverified = identity.Reject
		h := newGate(t, open(t, perHour("ip", 2, "http")), o).Handler(ok)
		resp := do(h, request("GET", "/", "X-API-Key", "junk"))
		expect(t, "status", resp.StatusCode, 401)
		expect(t, "challenge", resp.Header.Get("WWW-Authenticate"), `Bearer realm="api"`)
		expectList(t, "without a key", statuses(h, request("GET", "/"), request("GET", "/"), request("GET", "/")), []int{200, 200, 429})
	})
	t.Run("D9 accept gives each key a bucket, for an application that checks keys itself", func(t *testing.T) {
		h := newGate(t, open(t, perHour("key", 1, "http")), gate.Options{Identity: identity.Options{Unverified: identity.Accept}}).Handler(ok)
		got := statuses(h,
			request("GET", "/", "X-API-Key", "a"), request("GET", "/", "Authorization", "Bearer a"),
			request("GET", "/", "X-API-Key", "b"))
		expectList(t, "statuses", got, []int{200, 429, 200})
	})
	t.Run("a gate without a key file does not judge keys", func(t *testing.T) {
		h := newGate(t, open(t, perHour("auth", 0, "auth-failure"), perHour("ip", 2, "http")), gate.Options{}).Handler(ok)
		got := statuses(h, request("GET", "/", "X-API-Key", "a"), request("GET", "/", "X-API-Key", "b"), request("GET", "/"))
		expectList(t, "statuses", got, []int{200, 200, 429})
	})
}

func TestTokens(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	token := func(subject string, changes jwt.MapClaims) string {
		c := jwt.MapClaims{"iss": "https://id.example", "sub": subject, "exp": time.Now().Add(time.Hour).Unix()}
		maps.Copy(c, changes)
		token := jwt.NewWithClaims(jwt.SigningMethodES256, c)
		token.Header["kid"] = "k"
		raw, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + raw
	}
	o := gate.Options{Identity: identity.Options{Tiers: tierNames, Issuers: []identity.Issuer{{
		Issuer: "https://id.example", JWKS: keySet(t, &key.PublicKey), RolesClaim: "roles",
		RoleTiers: []identity.RoleTier{{Role: "ROLE_PREMIUM", Tier: "premium"}},
	}}}}
	t.Run("B-W4 B-4 a token's tier counts, after the address's own limit", func(t *testing.T) {
		h := newGate(t, open(t, append(tiers(), perHour("preauth", 900, "preauth"))...), o).Handler(ok)
		premium := token("ann", jwt.MapClaims{"roles": []string{"ROLE_PREMIUM"}})
		expect(t, "limit of premium", limitOf(h, request("GET", "/", "Authorization", premium)), "1000")
		expect(t, "limit of standard", limitOf(h, request("GET", "/", "Authorization", token("bob", nil))), "200")
		n := admitted(h, 300, func(int) *http.Request { return request("GET", "/", "Authorization", premium) })
		expect(t, "admitted of premium", n, 300)
		n = admitted(h, 300, func(int) *http.Request { return request("GET", "/", "Authorization", token("bob", nil)) })
		expect(t, "admitted of standard", n, 199)
		n = admitted(h, 500, func(int) *http.Request { return request("GET", "/", "Authorization", premium) })
		expect(t, "admitted of premium when the address is out", n, 298)
	})
	t.Run("I-029 a session of the application and a token of one user are one bucket", func(t *testing.T) {
		g := newGate(t, open(t, perHour("user", 2, "http")), o)
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c, err := r.Cookie("session"); err == nil {
				r = r.WithContext(gate.WithPrincipal(r.Context(), identity.Principal{Subject: "user:" + c.Value}))
			}
			g.Handler(ok).ServeHTTP(w, r)
		})
		got := statuses(h, request("GET", "/", "Cookie", "session=ann"), request("GET", "/", "Authorization", token("ann", nil)),
			request("GET", "/", "Cookie", "session=ann"), request("GET", "/", "Authorization", token("ann", nil)),
			request("GET", "/", "Cookie", "session=bob"))
		expectList(t, "statuses", got, []int{200, 200, 429, 429, 200})
	})
	t.Run("I-028 a refreshed token changes nothing", func(t *testing.T) {
		h := newGate(t, open(t, perHour("user", 1, "http")), o).Handler(ok)
		got := statuses(h, request("GET", "/", "Authorization", token("ann", nil)),
			request("GET", "/", "Authorization", token("ann", jwt.MapClaims{"jti": "2"})))
		expectList(t, "statuses", got, []int{200, 429})
	})
}

// keySet writes a public key to a file as a key set.
func keySet(t *testing.T, key *ecdsa.PublicKey) string {
	t.Helper()
	point, err := key.Bytes() // 4, x, y
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	path := filepath.Join(t.TempDir(), "jwks.json")
	set := fmt.Sprintf(`{"keys":[{"kty":"EC","kid":"k","use":"sig","alg":"ES256","crv":"P-256","x":%q,"y":%q}]}`, b64(point[1:33]), b64(point[33:]))
	if err := os.WriteFile(path, []byte(set), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNobody(t *testing.T) {
	t.Run("P-165 a caller without any identity has the anonymous tier, and a limit of its own", func(t *testing.T) {
		h := newGate(t, open(t, on(perHour("tier-anonymous", 2, "http"), sluice.Tier, "anonymous")), gate.Options{Identity: identity.Options{Tiers: tierNames}}).Handler(ok)
		got := statuses(h, from("", request("GET", "/")), from("", request("GET", "/")), from("", request("GET", "/")), request("GET", "/"))
		expectList(t, "statuses", got, []int{200, 200, 429, 200})
		expect(t, "limit", limitOf(h, from("", request("GET", "/"))), "2")
	})
}

func TestAuthFailures(t *testing.T) {
	raw, line := newKey(t, identity.KeyRecord{})
	o := gate.Options{Identity: identity.Options{Keys: keys(t, line), Unverified: identity.Reject}}
	bad := func() *http.Request { return request("GET", "/", "X-API-Key", "wrong") }
	good := func() *http.Request { return request("GET", "/", "X-API-Key", raw) }

	t.Run("I-101 after five failures the right key is refused before it is looked at", func(t *testing.T) {
		h := newGate(t, open(t, perHour("auth", 5, "auth-failure", sluice.IP)), o).Handler(ok)
		expectList(t, "statuses", statuses(h, bad(), bad(), bad(), bad(), bad(), good(), bad()),
			[]int{401, 401, 401, 401, 401, 429, 429})
		expectList(t, "without a credential", statuses(h, request("GET", "/")), []int{200})
	})
	t.Run("I-033 the guesser's address pays, not the account", func(t *testing.T) {
		h := newGate(t, open(t, perHour("auth", 5, "auth-failure", sluice.IP)), o).Handler(ok)
		for range 60 {
			do(h, bad())
		}
		expectList(t, "the owner from elsewhere", statuses(h, from("198.51.100.1:1", good())), []int{200})
	})
	t.Run("I-034 one wrong credential again and again is one failure, if so asked", func(t *testing.T) {
		o := o
		o.DistinctFailures = true
		h := newGate(t, open(t, perHour("auth", 3, "auth-failure", sluice.IP)), o).Handler(ok)
		other := func(key string) *http.Request { return request("GET", "/", "X-API-Key", key) }
		for range 50 {
			expect(t, "status of the same again", do(h, bad()).StatusCode, 401)
		}
		expectList(t, "its owner", statuses(h, good()), []int{200})
		expectList(t, "the same in another header, and another key", statuses(h, request("GET", "/", "Authorization", "ApiKey wrong"), other("guess")), []int{401, 401})
		expectList(t, "who guesses on is out", statuses(h, other("guess 2"), bad(), good()), []int{401, 429, 429})
		expectList(t, "the same from elsewhere is that address's failure",
			statuses(h, from("198.51.100.1:1", bad()), from("198.51.100.1:1", other("a")), from("198.51.100.1:1", other("b")), from("198.51.100.1:1", good())),
			[]int{401, 401, 401, 429})
	})
	t.Run("a reset by an operator counts at once", func(t *testing.T) {
		ctl := open(t, perHour("auth", 1, "auth-failure", sluice.IP))
		h := newGate(t, ctl, o).Handler(ok)
		expectList(t, "before", statuses(h, bad(), good()), []int{401, 429})
		if _, err := ctl.Reset(t.Context(), "ip:203.0.113.9"); err != nil {
			t.Fatal(err)
		}
		expectList(t, "after", statuses(h, good()), []int{200})
	})
	t.Run("I-020 a good credential beside a bad one passes, and the failure is counted", func(t *testing.T) {
		ctl := open(t, perHour("auth", 2, "auth-failure", sluice.IP))
		h := newGate(t, ctl, o).Handler(ok)
		got := statuses(h, request("GET", "/", "Authorization", "Bearer "+raw, "X-API-Key", "junk"), bad(), good())
		expectList(t, "statuses", got, []int{200, 401, 429})
	})
}

func TestTenants(t *testing.T) {
	raw, line := newKey(t, identity.KeyRecord{})
	owned, line2 := newKey(t, identity.KeyRecord{Tenant: "acme"})
	proxies := gate.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	withTenant := func(id string, headers ...string) *http.Request {
		return request("GET", "/", append(headers, "X-Tenant-ID", id)...)
	}
	t.Run("I-024 B-W2 rotating the header buys nothing", func(t *testing.T) {
		h := newGate(t, open(t, perHour("ip", 120, "http")), gate.Options{}).Handler(ok)
		n := admitted(h, 150, func(i int) *http.Request { return withTenant(strconv.Itoa(i)) })
		expect(t, "admitted", n, 120)
	})
	t.Run("B-5 from a trusted proxy it is the caller", func(t *testing.T) {
		o := gate.Options{ClientIP: proxies, Identity: identity.Options{Tenant: identity.Tenant{From: identity.FromTrusted}}}
		h := newGate(t, open(t, perHour("tenant", 1, "http")), o).Handler(ok)
		got := statuses(h, from("10.0.0.1:1", withTenant("acme")), from("10.0.0.2:1", withTenant("  acme ")),
			from("10.0.0.1:1", withTenant("other")), withTenant("third"), withTenant("fourth"))
		expectList(t, "statuses", got, []int{200, 429, 200, 200, 429})
	})
	t.Run("I-025 nobody drains a victim's tenant", func(t *testing.T) {
		o := gate.Options{Identity: identity.Options{Keys: keys(t, line, line2)}}
		h := newGate(t, open(t, perHour("tenant", 2, "http", sluice.Tenant)), o).Handler(ok)
		attack := func() *http.Request { return withTenant("acme", "X-API-Key", raw) }
		expectList(t, "attacker", statuses(h, attack(), attack(), attack()), []int{200, 200, 429})
		expectList(t, "owner", statuses(h, request("GET", "/", "X-API-Key", owned)), []int{200})
	})
	t.Run("D9 a tenant from the record is not changed by the header", func(t *testing.T) {
		o := gate.Options{Identity: identity.Options{Keys: keys(t, line, line2)}}
		h := newGate(t, open(t, perHour("tenant", 1, "http", sluice.Tenant)), o).Handler(ok)
		got := statuses(h, withTenant("a", "X-API-Key", owned), withTenant("b", "X-API-Key", owned))
		expectList(t, "statuses", got, []int{200, 429})
	})
	t.Run("D9 anyone believes everybody", func(t *testing.T) {
		o := gate.Options{Identity: identity.Options{Tenant: identity.Tenant{From: identity.FromAnyone, Tier: "premium"}, Tiers: tierNames}}
		h := newGate(t, open(t, tiers()...), o).Handler(ok)
		expect(t, "limit", limitOf(h, withTenant("a")), "1000")
	})
	t.Run("I-045 a blank tenant is none", func(t *testing.T) {
		o := gate.Options{Identity: identity.Options{Tenant: identity.Tenant{From: identity.FromAnyone}, Tiers: tierNames}}
		h := newGate(t, open(t, tiers()...), o).Handler(ok)
		for _, id := range []string{"", "  ", strings.Repeat("x", 200), "a\x01b"} {
			expect(t, "limit", limitOf(h, withTenant(id)), "20")
		}
		expect(t, "limit with two tenants", limitOf(h, withTenant("a", "X-Tenant-ID", "b")), "20")
	})
	t.Run("I-010 I-044 a rule on tenants says what a call without one is", func(t *testing.T) {
		fallback, deny := perHour("fallback", 1, "http", sluice.Tenant), perHour("deny", 1, "http", sluice.Tenant)
		deny.Missing = sluice.MissingDeny
		g := newGate(t, open(t, fallback), gate.Options{})
		h := g.Handler(ok)
		expectList(t, "by default by address", statuses(h, request("GET", "/"), request("GET", "/")), []int{200, 429})
		e, err := g.Explain(t.Context(), request("GET", "/"))
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "what the explanation says of the key", e.Asked[0].Rules[0].Key, "ip=ip:203.0.113.9 (tenant is missing)")
		h = newGate(t, open(t, deny), gate.Options{}).Handler(ok)
		expectList(t, "denied", statuses(h, request("GET", "/")), []int{403})
	})
}
