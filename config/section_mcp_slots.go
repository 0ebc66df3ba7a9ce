package config

// MCPSlot is the place of one provider: a program, a server at an address, or, without
// either, one that dials in. A provider that dials in needs no entry.
type MCPSlot struct {
	// Its name, which stands in paths and before the names of tools: /NAME/mcp, NAME-tool.
	Slot string `key:"slot" required:"true" format:"slot"`
	// A program that speaks MCP on its standard streams, and its arguments. No shell reads them.
	Command []string `key:"command"`
	// Variables of the program's environment, as text, ${NAME} or file:PATH. Of sluice's own it
	// gets those that every program needs, such as PATH and HOME.
	Env []NamedSecret `key:"env" keyed:"Name"`
	// The program's working directory. Absent is that of sluice.
	Dir string `key:"dir" format:"path"`
	// A command that removes what the program may leave behind outside of its process group, such as
	// [docker, rm, -f, NAME]. It runs before each start and after each end.
	Sweep []string `key:"sweep"`
	// Whether what the program writes to its standard error goes to the log. It may repeat what
	// callers have sent.
	LogErrors bool `key:"logErrors"`
	// Whether an end of the program proves that its work has ended, so that slots of its calls come
	// back. Otherwise they stay taken, for what it has begun may go on elsewhere.
	ExitProvesStop bool `key:"exitProvesStop"`
	// The address of a server: http, https, ws or wss.
	URL string `key:"url" format:"mcp-url"`
	// Headers of every request to the server, each value whole as text, ${NAME} or file:PATH.
	Headers []NamedSecret `key:"headers" keyed:"Name"`
	// How the provider is reached. Absent is what command and url say: stdio, websocket for ws and
	// wss, and streamable-http.
	Transport string `key:"transport" enum:"|stdio|streamable-http|sse|websocket"`
	// Which protocol it speaks: revisions up to 2025-11-25 (legacy), later ones (modern), or what
	// it is found to speak.
	Protocol string `key:"protocol" enum:"auto|legacy|modern" default:"auto"`
	// How long connecting and the handshake may take, in milliseconds.
	ConnectTimeoutMs int64 `key:"connectTimeoutMs" default:"10000" min:"1"`
	// How long a request may take, in milliseconds. Absent is providerRequestTimeoutMs; zero is no time-out.
	RequestTimeoutMs *int64 `key:"requestTimeoutMs" min:"0"`
	// How long progress may extend it, counted from the request's start. Absent lets progress
	// extend nothing.
	MaxRequestMs *int64 `key:"maxRequestMs" min:"1"`
	// The same two for single tools.
	ToolTimeouts []MCPTimeout `key:"toolTimeouts" keyed:"Tool"`
	// Bytes of one message, in either direction. For providers that dial in it is maxProviderFrameBytes.
	MaxFrameBytes int64 `key:"maxFrameBytes" default:"16777216" min:"1024" max:"268435456"`
	// Bytes of one result; a larger one is an error and is not cut. Absent is maxFrameBytes.
	MaxResultBytes *int64 `key:"maxResultBytes" min:"1"`
	// The tools that are offered. Absent is all.
	Tools []string `key:"tools" min:"1"`
	// What stands before the names of its tools at /_all. Absent is the slot and a hyphen; "" is nothing.
	Prefix *string `key:"prefix" format:"tool-prefix"`
	// Whether arguments are checked against the tool's schema before anything is taken.
	Validate bool `key:"validate" default:"true"`
	// Tools whose results are kept. Absent keeps none.
	Cache []MCPCache `key:"cache"`
}

// NamedSecret is a text by name, which may be a secret.
type NamedSecret struct {
	Name string
	// The text.
	Value Secret `key:"value" required:"true" secret:"may"`
}

// MCPTimeout is how long calls of one tool may take.
type MCPTimeout struct {
	Tool string
	// How long a call may take, in milliseconds; zero is no time-out. Absent is the slot's.
	RequestTimeoutMs *int64 `key:"requestTimeoutMs" min:"0"`
	// How long progress may extend that. Absent is the slot's.
	MaxRequestMs *int64 `key:"maxRequestMs" min:"1"`
}

// MCPCache keeps results of one tool.
type MCPCache struct {
	// The tool's name at the provider.
	Tool string `key:"tool" required:"true"`
	// For how long, in milliseconds.
	TTLMs int64 `key:"ttlMs" required:"true" min:"1" max:"86400000"`
	// Who shares a result: the calls of one subject, or all who may call the tool.
	Scope string `key:"scope" enum:"subject|shared" default:"subject"`
	// Keeps them although the tool does not say that it only reads.
	Writes bool `key:"writes"`
}
