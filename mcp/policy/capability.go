package policy

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/resource"
)

// The broker's own capabilities, which no provider may declare.
const (
	ToolsCall        = "mcp.tools.call"
	ToolsList        = "mcp.tools.list"
	ResourcesRead    = "mcp.resources.read"
	PromptsRead      = "mcp.prompts.read"
	CompletionUse    = "mcp.completion.use"
	ProvidersRead    = "broker.providers.read"    // the broker's tools that only tell
	LimitsAdmin      = "broker.limits.admin"      // broker_limits_release
	DeclareAdmin     = "broker.authority.admin"   // broker_declaration_release
	BudgetAutonomous = "broker.budget.autonomous" // a provider's, to reserve for work that no request has asked for
)

// A mapping gives the tools of the slots under a pattern their capabilities.
type mapping struct {
	text    string
	pattern resource.Pattern
	tools   map[string]string
}

// tools compiles the mapping of tools. The most specific pattern comes first, and of
// equally specific ones the first by text.
func (b *builder) tools(global map[string]string, qualified map[string]map[string]string) {
	b.p.tools = maps.Clone(global)
	b.toolNames(global, "toolCapabilities")
	for _, text := range slices.Sorted(maps.Keys(qualified)) {
		tools := qualified[text]
		pattern, err := resource.Parse(text)
		b.check(err, "providerToolCapabilities")
		b.toolNames(tools, "providerToolCapabilities "+text)
		b.p.mappings = append(b.p.mappings, mapping{text, pattern, maps.Clone(tools)})
	}
	slices.SortFunc(b.p.mappings, func(x, y mapping) int {
		return cmp.Or(y.pattern.Specificity()-x.pattern.Specificity(), strings.Compare(x.text, y.text))
	})
}

func (b *builder) toolNames(tools map[string]string, where string) {
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		if name == "" {
			b.problem("%s: a tool's name must not be empty", where)
		}
		b.capabilities([]string{tools[name]}, where, name)
	}
}

// Capability returns what a caller needs for a request on a slot whose resource is path;
// tool is the tool's name if method is tools/call. It is empty for methods that open and
// keep a session, and for those about a task, which belongs to who has started it. A
// method that is not known needs a capability of its own, "mcp." and its name with dots
// for slashes: what a provider adds to the protocol is no way around a policy.
func (p *Policy) Capability(path, slot, method, tool string) string {
	if slot == BrokerSlot {
		return brokerCapability(method, tool)
	}
	switch method {
	case "tools/call":
		return p.toolCapability(path, tool)
	case "tools/list":
		return ToolsList
	case "resources/list", "resources/read", "resources/templates/list", "resources/subscribe", "resources/unsubscribe":
		return ResourcesRead
	case "prompts/list", "prompts/get":
		return PromptsRead
	case "completion/complete":
		return CompletionUse
	}
	return otherCapability(method)
}

// otherCapability is that of a method which is not about a provider's features.
func otherCapability(method string) string {
	switch method {
	case "initialize", "ping", "server/discover", "logging/setLevel", "subscriptions/listen",
		"tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update":
		return ""
	}
	if strings.HasPrefix(method, "notifications/") {
		return ""
	}
	return "mcp." + strings.ReplaceAll(method, "/", ".")
}

// brokerCapability is that of the broker's own tools; they are not mapped, because the
// way out of a saturated broker must not depend on a mapping.
func brokerCapability(method, tool string) string {
	switch method {
	case "tools/list", "resources/list", "resources/read", "resources/templates/list", "prompts/list", "prompts/get":
		return ProvidersRead
	case "tools/call":
		switch tool {
		case "broker_info", "providers_list", "provider_status", "broker_guide", "broker_diagnose":
			return ProvidersRead
		case "broker_limits_release":
			return LimitsAdmin
		case "broker_declaration_release":
			return DeclareAdmin
		}
		return ToolsCall
	}
	return otherCapability(method)
}

func (p *Policy) toolCapability(path, tool string) string {
	if p == nil {
		return ToolsCall
	}
	for i := range p.mappings {
		m := &p.mappings[i]
		if capability, ok := m.tools[tool]; ok && m.pattern.Match(path) {
			return capability
		}
	}
	if capability, ok := p.tools[tool]; ok {
		return capability
	}
	return ToolsCall
}

// isCapability reports whether s has the form of a capability: letters, digits and
// "._:-", one of the former first, or "*".
func isCapability(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == ':' || c == '-'):
		default:
			return s == "*"
		}
	}
	return s != ""
}
