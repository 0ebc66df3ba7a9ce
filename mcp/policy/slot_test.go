package policy

import "testing"

func TestResource(t *testing.T) {
	p := compile(t, Config{SlotResources: map[string]string{"motor": "/site/line/motor/", "all": "/", "_broker": "/_system/broker"}})
	for slot, want := range map[string]string{
		"motor": "/site/line/motor", "all": "/", "other": "/other", "_x": "/_x",
		"_broker": "/_system/broker", "_all": "/_system/all",
		"_system": "", "": "", ".": "", "..": "", "a/b": "", "/a": "", "a*": "", "a\n": "", "a%2fb": "",
	} {
		if got := p.Resource(slot); got != want {
			t.Errorf("4.2.6 slot %q: %q, want %q", slot, got, want)
		}
	}
	if got := (*Policy)(nil).Resource("a"); got != "/a" {
		t.Errorf("4.2.6 without a policy: %q", got)
	}
}

func TestProtection(t *testing.T) {
	p := compile(t, Config{
		Providers: []Provider{
			{ID: "scada", Secret: secret("s"), Subjects: []string{"service:scada"}, AllowedResources: []string{"/site/**"}},
			{ID: "plc", Secret: secret("p"), AllowedResources: []string{"/raw"}},
			{ID: "free", Secret: secret("f")},
			{ID: "nowhere", Secret: secret("n"), AllowedResources: []string{}},
		},
		SharedSecret:   secret("all"),
		SlotResources:  map[string]string{"pump": "/site/pump"},
		ProtectedSlots: map[string]Protection{"raw": {DeclaredBy: "scada", PublishedBy: "plc"}, "shared": {DeclaredBy: "plc", PublishedBy: "shared-secret"}},
	})
	for _, c := range []struct {
		name string
		who  *Caller
		slot string
		want bool
	}{
		{"4.2.4 any slot", nil, "pump", true},
		{"4.2.4 a protected slot, by its declarer", NewCaller("service:scada", "group:x"), "raw", true},
		{"4.2.4 by another", NewCaller("service:plc"), "raw", false},
		{"4.2.4 by nobody", nil, "raw", false},
		{"4.2.4 declared by a provider without subjects", NewCaller("service:scada"), "shared", false},
	} {
		if got := p.Reachable(c.who, c.slot); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	for _, c := range []struct {
		name, who, slot string
		want            bool
	}{
		{"4.2.10 inside", "scada", "pump", true},
		{"4.2.10 outside", "scada", "other", false},
		{"4.2.10 anywhere", "free", "other", true},
		{"4.2.10 nowhere", "nowhere", "other", false},
		{"4.2.10 a protected slot, by its publisher", "plc", "raw", true},
		{"4.2.10 by another that may be anywhere", "free", "raw", false},
		{"4.2.10 by nobody", "", "raw", false},
		{"nobody elsewhere", "", "pump", true},
		{"a secret that many have protects nothing", "shared-secret", "shared", false},
		{"4.2.6 the broker's own slot", "free", "_broker", false},
		{"4.2.6 the aggregate", "free", "_all", false},
		{"4.2.6 a slot without a resource", "free", "_system", false},
	} {
		if got := p.MayServe(p.Principal(c.who), c.slot); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if !(*Policy)(nil).Reachable(nil, "a") || !(*Policy)(nil).MayServe(nil, "a") {
		t.Error("without a policy everything is open")
	}
}
