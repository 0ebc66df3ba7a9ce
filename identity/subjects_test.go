package identity

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

// brokers are the claims that the broker's configuration names by itself.
func brokers(change func(*Issuer)) Issuer {
	i := Issuer{Issuer: "https://id.example", GroupClaims: []string{"groups", "roles"}, ClientClaim: "client_id"}
	if change != nil {
		change(&i)
	}
	return i
}

func TestSubjects(t *testing.T) {
	s := newSigner(t)
	file := setFile(t, s.set(""))
	for _, c := range []struct {
		name   string
		issuer Issuer
		claims jwt.MapClaims
		want   string // subjects in one line, the caller's own first
		err    error
	}{
		{"4.2.5 a user, groups and roles, a client", brokers(nil),
			jwt.MapClaims{"groups": []string{"ops", "emp"}, "roles": "admin", "client_id": "cli"},
			"user:alice | client:cli group:admin group:emp group:ops user:alice", nil},
		{"4.2.5 claims that are not there are none", brokers(nil), nil, "user:alice | user:alice", nil},
		{"4.2.5 null and empty texts are none", brokers(nil), jwt.MapClaims{"groups": []string{"", "a"}, "client_id": ""}, "user:alice | group:a user:alice", nil},
		{"4.2.5 the same group twice", brokers(nil), jwt.MapClaims{"groups": []string{"a", "a"}, "roles": []string{"a"}}, "user:alice | group:a user:alice", nil},
		{"4.2.5 a text is one group, blanks included", brokers(nil), jwt.MapClaims{"groups": "Domain Users"}, "user:alice | group:Domain Users user:alice", nil},
		{"4.2.5 a dotted path", brokers(func(i *Issuer) { i.GroupClaims = []string{"realm.roles"} }),
			jwt.MapClaims{"realm": map[string]any{"roles": []string{"a"}}, "groups": 1}, "user:alice | group:a user:alice", nil},
		{"4.2.5 another user claim", brokers(func(i *Issuer) { i.SubjectClaim = "app.login" }),
			jwt.MapClaims{"app": map[string]any{"login": "bob"}}, "user:bob | user:bob", nil},
		{"4.2.5 no service unless it is asked for", brokers(nil), jwt.MapClaims{"azp": "s"}, "user:alice | user:alice", nil},
		{"4.2.5 a service", brokers(func(i *Issuer) { i.ServiceClaims = []string{"azp"} }), jwt.MapClaims{"azp": "s"}, "user:alice | service:s user:alice", nil},
		{"C-20 a service that is no user", brokers(func(i *Issuer) { i.ServiceClaims = []string{"azp"} }),
			jwt.MapClaims{"sub": nil, "azp": "s", "client_id": "c", "groups": "g"}, "service:s | client:c group:g service:s", nil},
		{"C-20 a client that is no user", brokers(nil), jwt.MapClaims{"sub": nil, "client_id": "c"}, "client:c | client:c", nil},
		{"several users", brokers(nil), jwt.MapClaims{"sub": []string{"bob", "alice"}}, "user:bob | user:alice user:bob", nil},
		{"a scope for all of an issuer", brokers(func(i *Issuer) { i.Name = "corp" }), jwt.MapClaims{"groups": "g", "client_id": "c"},
			"user:corp/alice | client:corp/c group:corp/g user:corp/alice", nil},
		{"C-20 a group identifies nobody", brokers(nil), jwt.MapClaims{"sub": nil, "groups": "g"}, "", ErrMalformed},
		{"4.2.5 a number", brokers(nil), jwt.MapClaims{"groups": 1}, "", ErrClaims},
		{"4.2.5 an object", brokers(nil), jwt.MapClaims{"client_id": map[string]any{}}, "", ErrClaims},
		{"4.2.5 a list of more than texts", brokers(nil), jwt.MapClaims{"roles": []any{"a", 1}}, "", ErrClaims},
		{"4.2.5 a list in a list", brokers(nil), jwt.MapClaims{"roles": []any{[]string{"a"}}}, "", ErrClaims},
		{"4.2.5 a user that is none", brokers(nil), jwt.MapClaims{"sub": map[string]any{}}, "", ErrClaims},
		{"a group that could forge a line of a log", brokers(nil), jwt.MapClaims{"groups": "a\nb"}, "", ErrClaims},
		{"a group that is too long", brokers(nil), jwt.MapClaims{"groups": strings.Repeat("a", maxSubjectText+1)}, "", ErrClaims},
		{"more groups than are looked at", brokers(nil), jwt.MapClaims{"groups": numbered(maxSubjects)}, "", ErrClaims},
		{"as many as are", brokers(nil), jwt.MapClaims{"groups": numbered(maxSubjects - 1)}, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.issuer.JWKS = file
			r := newResolver(t, Options{Issuers: []Issuer{c.issuer}})
			f := r.Resolve(t.Context(), bearer(sign(t, jwt.SigningMethodES256, s.ec, "ec", claims(c.claims))), false)
			if !errors.Is(f.Err, c.err) || f.Verified != (c.err == nil) {
				t.Fatalf("verified %v, %v; want %v", f.Verified, f.Err, c.err)
			}
			if got := f.Principal.Subject + " | " + strings.Join(f.Principal.Subjects, " "); c.want != "" && got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if c.err != nil && f.Failure() == "" {
				t.Errorf("the failure %v has no word for metrics", c.err)
			}
		})
	}
}

// numbered returns n groups.
func numbered(n int) (groups []string) {
	for i := range n {
		groups = append(groups, strconv.Itoa(i))
	}
	return groups
}

func TestSubjectsHaveToBeAskedFor(t *testing.T) {
	s := newSigner(t)
	r := newResolver(t, Options{Issuers: []Issuer{{Issuer: "https://id.example", JWKS: setFile(t, s.set(""))}}})
	odd := claims(jwt.MapClaims{"groups": 1, "client_id": []int{1}})
	f := r.Resolve(t.Context(), bearer(sign(t, jwt.SigningMethodES256, s.ec, "ec", odd)), false)
	if !f.Verified || f.Principal.Subject != "user:alice" || f.Principal.Subjects != nil {
		t.Errorf("the gate's callers have changed: %+v, %v", f.Principal, f.Err)
	}
}

func TestSubjectsOfTwoIssuersStayApart(t *testing.T) {
	a, b := newSigner(t), newSigner(t)
	one, other := brokers(nil), brokers(nil)
	one.Issuer, one.JWKS = "https://a.example", setFile(t, a.set(""))
	other.Issuer, other.JWKS = "https://b.example", setFile(t, b.set(""))
	r := newResolver(t, Options{Issuers: []Issuer{one, other}})
	f := r.Resolve(t.Context(), bearer(sign(t, jwt.SigningMethodES256, b.ec, "ec", claims(jwt.MapClaims{"iss": other.Issuer, "groups": "admins"}))), false)
	if slices.Contains(f.Principal.Subjects, "group:admins") || !slices.Contains(f.Principal.Subjects, "group:b.example/admins") {
		t.Errorf("got %q, %v", f.Principal.Subjects, f.Err)
	}
}
