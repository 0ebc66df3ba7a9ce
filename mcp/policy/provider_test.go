package policy

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestAuthenticate(t *testing.T) {
	a, b, all := string(secret("a")), string(secret("b")), string(secret("all"))
	p := compile(t, Config{
		Providers:    []Provider{{ID: "a", Secret: Secret(a), Subjects: []string{"service:a"}}, {ID: "b", Secret: Secret(b)}},
		SharedSecret: Secret(all),
	})
	for _, c := range []struct {
		name   string
		header http.Header
		want   string
		err    error
	}{
		{"4.2.10 in a header of its own", header("X-Provider-Token", a), "a", nil},
		{"4.2.10 as a bearer", header("Authorization", "Bearer "+b), "b", nil},
		{"4.2.10 whatever the case of the scheme", header("Authorization", "bearer  "+b+" "), "b", nil},
		{"4.2.10 the same in both", header("X-Provider-Token", a, "Authorization", "Bearer "+a), "a", nil},
		{"4.2.10 the shared secret", header("X-Provider-Token", all), "shared-secret", nil},
		{"4.2.10 two different ones", header("X-Provider-Token", a, "Authorization", "Bearer "+b), "", ErrAmbiguousSecret},
		{"4.2.10 two of which one is good", header("X-Provider-Token", a, "Authorization", "Bearer x"), "", ErrAmbiguousSecret},
		{"4.2.10 one header twice", header("X-Provider-Token", a, "X-Provider-Token", b), "", ErrAmbiguousSecret},
		{"4.2.10 none", header(), "", ErrNoSecret},
		{"4.2.10 an empty one", header("X-Provider-Token", " ", "Authorization", "Bearer "), "", ErrNoSecret},
		{"4.2.10 another scheme", header("Authorization", "Basic "+a), "", ErrNoSecret},
		{"4.2.10 a wrong one", header("X-Provider-Token", "wrong"), "", ErrWrongSecret},
		{"4.2.10 a part of one", header("X-Provider-Token", a[:len(a)-1]), "", ErrWrongSecret},
	} {
		t.Run(c.name, func(t *testing.T) {
			who, err := p.Authenticate(c.header)
			if !errors.Is(err, c.err) || (who == nil) != (c.err != nil) || who != nil && who.ID != c.want {
				t.Errorf("got %+v, %v", who, err)
			}
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
	for _, open := range []*Policy{nil, compile(t, Config{})} {
		if who, err := open.Authenticate(header("X-Provider-Token", a)); who != nil || err != nil {
			t.Errorf("4.2.10 where no provider is known: %v, %v", who, err)
		}
	}
	if got := p.Principal("a").Caller().Identity(); got != "service:a" {
		t.Errorf("the provider as a caller: %q", got)
	}
	text, err := json.Marshal(Config{SharedSecret: Secret(a)})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%s %+v", text, Config{SharedSecret: Secret(a), Providers: []Provider{{ID: "a", Secret: Secret(a)}}}); strings.Contains(got, "hush") || strings.Contains(got, "104 117") || strings.Contains(got, base64.StdEncoding.EncodeToString(Secret(a))) {
		t.Errorf("a printed configuration shows a secret: %s", got)
	}
}
