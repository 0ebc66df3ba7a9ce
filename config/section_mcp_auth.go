package config

// MCPAuth says who may do what. A limit never grants a permission.
type MCPAuth struct {
	// The capability of each tool.
	ToolCapabilities []Mapping `key:"toolCapabilities" keyed:"Name"`
	// The capability of each tool, by a pattern of the provider's resource.
	ProviderToolCapabilities []ToolMap `key:"providerToolCapabilities" keyed:"Pattern"`
	// The resource path of each slot. A slot that is not listed is /slot; _broker and _all are
	// /_system/broker and /_system/all, and nothing else may be below /_system.
	SlotResources []SlotResource `key:"slotResources" keyed:"Slot"`
	// What each role may do.
	Roles []Role `key:"roles" keyed:"Name"`
	// Who has which role where.
	Assignments []Assignment `key:"assignments"`
	// What is forbidden whatever the roles say.
	Denies []Deny `key:"denies"`
	// Engineering limits that the operator sets, beside those that providers declare.
	ResourceLimits []ResourceLimit `key:"resourceLimits"`
	// Slots that one provider's subjects alone may call, and one provider alone may serve.
	ProtectedSlots []ProtectedSlot `key:"protectedSlots" keyed:"Slot"`
}

// ResourceLimit narrows what may be written to some resources, whoever writes. The broker hands
// it out with each decision that allows; the provider applies it.
type ResourceLimit struct {
	// Its id, for the audit.
	ID string `key:"id" required:"true" format:"plain-id"`
	// Which resources: a pattern in which {name} may stand for *.
	Pattern string `key:"pattern" required:"true"`
	// An expression that a {name} of the pattern must match as a whole.
	Where []Expression `key:"where" keyed:"Segment"`
	// What may be written.
	Limits EngineeringLimits `key:"limits" required:"true"`
}

// Expression is a regular expression by the name of a segment, written as "name: expression".
type Expression struct {
	Segment string
	// The expression. Those of Go, which take linear time.
	Expression string `key:"expression" required:"true"`
}

// EngineeringLimits say what may be written. At least one of them is given.
type EngineeringLimits struct {
	// The least value.
	MinValue *Free `key:"minValue"`
	// The largest value.
	MaxValue *Free `key:"maxValue"`
	// The values that there are: texts, numbers, true, false, null.
	AllowedValues *Free `key:"allowedValues"`
	// The levels that may be written to.
	Destinations []string `key:"destinations" min:"1"`
}

// ProtectedSlot says who alone may call a slot, and who alone may serve it.
type ProtectedSlot struct {
	Slot string
	// The provider whose subjects may call it, and whose declaration confirms that.
	DeclaredBy string `key:"declaredBy" required:"true"`
	// The provider that may serve it.
	PublishedBy string `key:"publishedBy" required:"true"`
}

// Mapping is a capability by the name of a tool, written as "tool: capability".
type Mapping struct {
	Name string
	// The capability.
	To string `key:"to" required:"true" format:"capability"`
}

// SlotResource is a path by the name of a slot, written as "slot: path".
type SlotResource struct {
	Slot string
	// The path: absolute, without wildcards.
	Path string `key:"path" required:"true" format:"resource-path"`
}

// ToolMap maps the tools of some providers to capabilities.
type ToolMap struct {
	Pattern string
	// The capability of each tool.
	Tools []Mapping `key:"tools" keyed:"Name"`
}

// Role is a set of capabilities.
type Role struct {
	Name string
	// What it may do; "*" is everything.
	Capabilities []string `key:"capabilities" format:"capabilities"`
	// Roles whose capabilities it has too.
	Inherits []string `key:"inherits"`
}

// Assignment gives a subject a role on a resource.
type Assignment struct {
	// Its id, for the audit. Absent is its place in the list.
	ID string `key:"id" format:"plain-id"`
	// Who: "user:alice", "group:operators", "client:…", "service:…", or "anonymous" for callers without any.
	Subject string `key:"subject" required:"true" format:"subject"`
	// Which role.
	Role string `key:"role" required:"true"`
	// Where.
	Resource string `key:"resource" required:"true" format:"resource"`
}

// Deny forbids a subject capabilities on a resource.
type Deny struct {
	// Its id, for the audit. Absent is its place in the list.
	ID string `key:"id" format:"plain-id"`
	// Who, as for an assignment.
	Subject string `key:"subject" required:"true" format:"subject"`
	// What; "*" is everything.
	Capabilities []string `key:"capabilities" required:"true" format:"capabilities"`
	// Where.
	Resource string `key:"resource" required:"true" format:"resource"`
}
