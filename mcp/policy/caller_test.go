package policy

import (
	"slices"
	"testing"
)

func TestIdentity(t *testing.T) {
	for _, c := range []struct {
		name     string
		subjects []string
		want     string
	}{
		{"C-20 a user before all", []string{"client:c", "service:s", "user:u"}, "user:u"},
		{"C-20 the first of several users", []string{"user:b", "user:a"}, "user:a"},
		{"C-20 a service before a client", []string{"client:c", "service:s"}, "service:s"},
		{"C-20 a client", []string{"client:c", "group:g"}, "client:c"},
		{"C-20 groups never count", []string{"group:a"}, Anonymous},
		{"C-20 nobody", nil, Anonymous},
		{"C-20 a kind that only begins alike", []string{"userdata:x"}, Anonymous},
		{"C-20 other kinds are skipped", []string{"apikey:1", "zone:2", "user:u"}, "user:u"},
		{"C-21 another group changes nothing", []string{"user:u", "group:a", "group:zz"}, "user:u"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := NewCaller(c.subjects...).Identity(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := (*Caller)(nil).Identity(); got != Anonymous {
		t.Errorf("nil: %q", got)
	}
}

func TestNewCaller(t *testing.T) {
	in := []string{"user:b", "group:a", "user:b"}
	c := NewCaller(in...)
	if !slices.Equal(c.Subjects, []string{"group:a", "user:b"}) || !c.Verified || in[0] != "user:b" {
		t.Errorf("got %+v from %q", c, in)
	}
	if NewCaller().Verified {
		t.Error("nobody is verified")
	}
}
