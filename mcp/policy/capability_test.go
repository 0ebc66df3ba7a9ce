package policy

import "testing"

func TestCapability(t *testing.T) {
	p := compile(t, Config{
		ToolCapabilities: map[string]string{"diagnose": "mcp.tools.diagnose", "start": "mcp.tools.operate", "broker_diagnose": "x"},
		ProviderToolCapabilities: map[string]map[string]string{
			"/site/**":      {"start": "site.start", "stop": "site.stop"},
			"/site/line/**": {"start": "line.start"},
			"/*/line/**":    {"start": "any.line.start", "stop": "any.line.stop"},
			"/z/*":          {"start": "z.star"},
			"/*/z":          {"start": "star.z"},
		},
	})
	for _, c := range []struct{ name, path, slot, method, tool, want string }{
		{"4.2.8 the fallback", "/a", "a", "tools/call", "unheard", "mcp.tools.call"},
		{"4.2.8 by the tool", "/a", "a", "tools/call", "start", "mcp.tools.operate"},
		{"4.2.8 by the provider, which beats it", "/site/x", "a", "tools/call", "start", "site.start"},
		{"4.2.8 ** is the resource itself too", "/site", "a", "tools/call", "start", "site.start"},
		{"4.2.8 the most specific", "/site/line/1", "a", "tools/call", "start", "line.start"},
		{"4.2.8 the next, if the tool is not in it", "/site/line/1", "a", "tools/call", "stop", "any.line.stop"},
		{"4.2.8 equally specific: the text decides", "/z/z", "a", "tools/call", "start", "star.z"},
		{"4.2.8 the tool, if no pattern has it", "/site/x", "a", "tools/call", "diagnose", "mcp.tools.diagnose"},
		{"4.2.8 list", "/a", "a", "tools/list", "", "mcp.tools.list"},
		{"4.2.8 resources", "/a", "a", "resources/list", "", "mcp.resources.read"},
		{"4.2.8 a resource", "/a", "a", "resources/read", "", "mcp.resources.read"},
		{"templates of resources", "/a", "a", "resources/templates/list", "", "mcp.resources.read"},
		{"a subscription", "/a", "a", "resources/subscribe", "", "mcp.resources.read"},
		{"4.2.8 prompts", "/a", "a", "prompts/list", "", "mcp.prompts.read"},
		{"4.2.8 a prompt", "/a", "a", "prompts/get", "", "mcp.prompts.read"},
		{"4.2.8 completion", "/a", "a", "completion/complete", "", "mcp.completion.use"},
		{"4.2.8 lists of all", AllResource, AllSlot, "tools/list", "", "mcp.tools.list"},
		{"4.2.8 the broker's list", BrokerResource, BrokerSlot, "tools/list", "", "broker.providers.read"},
		{"4.2.8 the broker's resources", BrokerResource, BrokerSlot, "resources/read", "", "broker.providers.read"},
		{"4.2.8 the broker's tools, whatever is mapped", BrokerResource, BrokerSlot, "tools/call", "broker_diagnose", "broker.providers.read"},
		{"C-51 release", BrokerResource, BrokerSlot, "tools/call", "broker_limits_release", "broker.limits.admin"},
		{"C-W27 withdrawal", BrokerResource, BrokerSlot, "tools/call", "broker_declaration_release", "broker.authority.admin"},
		{"a tool that the broker has not", BrokerResource, BrokerSlot, "tools/call", "x", "mcp.tools.call"},
		{"release elsewhere is any tool", "/a", "a", "tools/call", "broker_limits_release", "mcp.tools.call"},
		{"a handshake", "/a", "a", "initialize", "", ""},
		{"the broker's handshake", BrokerResource, BrokerSlot, "initialize", "", ""},
		{"a notification", "/a", "a", "notifications/cancelled", "", ""},
		{"a task", "/a", "a", "tasks/get", "", ""},
		{"what a provider adds", "/a", "a", "vendor/tools/run", "", "mcp.vendor.tools.run"},
		{"a method in other case", "/a", "a", "Tools/call", "", "mcp.Tools.call"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := p.Capability(c.path, c.slot, c.method, c.tool); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := (*Policy)(nil).Capability("/a", "a", "tools/call", "start"); got != "mcp.tools.call" {
		t.Errorf("nil: %q", got)
	}
}

func TestIsCapability(t *testing.T) {
	for s, want := range map[string]bool{"a": true, "0": true, "A9._:-": true, "*": true, "": false, ".a": false, "-": false, "a*": false, "**": false, "a b": false, "é": false, "a/": false, "_a": false} {
		if isCapability(s) != want {
			t.Errorf("4.2.8 %q: %v", s, !want)
		}
	}
}
