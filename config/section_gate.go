package config

import "time"

// Allowance is a rate and a burst, as text or with the unit in the key's name. One of
// the four rates may be given. Zero denies everything.
type Allowance struct {
	// The rate, with or without its burst: "100/min", "5/10s", "30/s burst 20".
	Limit *Rate `key:"limit" alias:"rate"`
	// Requests a second.
	RequestsPerSecond *int64 `key:"requestsPerSecond" min:"0"`
	// Requests a minute.
	RequestsPerMinute *int64 `key:"requestsPerMinute" min:"0"`
	// Requests an hour.
	RequestsPerHour *int64 `key:"requestsPerHour" min:"0"`
	// The most that may come at once. Absent is the rate's own count.
	Burst *int64 `key:"burst" alias:"burstCapacity" min:"0"`
}

// Tier is what a class of callers may do.
type Tier struct {
	Name string
	Allowance
	// The most requests of one caller that may run at once. Absent is unlimited.
	InFlight *int64 `key:"inFlight" min:"0"`
	// Lets a caller wait. Absent refuses at once.
	Queue *Queue `key:"queue"`
	// Decides and reports, and refuses nobody.
	Shadow bool `key:"shadow"`
	// What happens when the store fails.
	OnStoreError string `key:"onStoreError" enum:"closed|open|local" default:"closed"`
	// How much of each limit may be given up, 1% to 50%, so that a store that replicas share need
	// not be asked for each call of a busy counter: units are taken ahead. Absent asks for each.
	Lease string `key:"lease" format:"lease"`
	// Whether a crash may lose the counters, so that no request waits for a disk. Absent keeps
	// what takes an hour or longer to come back.
	Volatile *bool `key:"volatile"`
}

// Endpoint limits requests to some paths. Of all endpoints that match a request the
// most specific one counts.
type Endpoint struct {
	// The rule's id. Absent makes one from the pattern.
	ID string `key:"id" format:"id"`
	// Which paths: ? is one character, * one segment, ** any number, {name} one segment.
	PathPattern string `key:"pathPattern" alias:"path|pattern" required:"true" format:"pattern"`
	// Which methods; GET means HEAD too. Absent is all.
	Methods []string `key:"methods" alias:"method" format:"method" min:"1"`
	// Which hosts. Absent is all.
	Hosts []string `key:"hosts" alias:"host" format:"host" min:"1"`
	Allowance
	// The most requests that may run at once for each caller. Absent is unlimited.
	InFlight *int64 `key:"inFlight" min:"0"`
	// Who has a counter of his own.
	GroupBy []string `key:"groupBy" format:"dimension" default:"subject"`
	// What a request takes.
	Cost Cost `key:"cost"`
	// Whether this limit stands instead of the tier's. Otherwise both apply.
	Replace bool `key:"replace"`
	// Lets a caller wait. Absent refuses at once.
	Queue *Queue `key:"queue"`
	// Decides and reports, and refuses nobody.
	Shadow bool `key:"shadow"`
	// What happens when the store fails.
	OnStoreError string `key:"onStoreError" enum:"closed|open|local" default:"closed"`
	// How much of each limit may be given up, 1% to 50%, so that a store that replicas share need
	// not be asked for each call of a busy counter: units are taken ahead. Absent asks for each.
	Lease string `key:"lease" format:"lease"`
	// Whether a crash may lose the counters, so that no request waits for a disk. Absent keeps
	// what takes an hour or longer to come back.
	Volatile *bool `key:"volatile"`
	// What the answers of this endpoint say about limits. Absent is the top level's setting.
	Headers *Headers `key:"headers"`
}

// Cost says what a request takes. A bare number is calls.
type Cost struct {
	// How many calls a request counts as, or the least if it is looked into.
	Calls int64 `key:"calls" default:"1" min:"0"`
	// What is counted in the body: elements of a JSON array, top-level fields of a
	// GraphQL document (an alias is one more), or calls of a JSON-RPC batch.
	Extractor string `key:"extractor" enum:"json-array-length|graphql-aliases|json-rpc-calls"`
	// Where the array is that is counted: a JSON pointer such as /data/items. With
	// json-rpc-calls it starts at a call's params and leads to the calls that a wrapping tool
	// makes. Absent is the body itself, or no wrapping tool.
	Pointer string `key:"pointer" format:"pointer"`
	// With json-rpc-calls and pointer: where an element of the array names its tool, such as
	// /tool. Absent is the wrapping tool's own name.
	Class string `key:"class" format:"pointer"`
	// With json-rpc-calls: how many calls a method or tool counts as. One that is not listed
	// counts as one. Absent lets ping, initialize and notifications count as none.
	Methods []Share `key:"methods" keyed:"Name"`
	// The most a request counts as.
	Max int64 `key:"max" default:"1000" min:"1"`
	// What a body is that is longer than bounds.inspectBytes: it counts as max, or is refused with 413.
	OnOversize string `key:"onOversize" enum:"max|refuse" default:"max"`
}

// Queue says how callers wait: in order of arrival.
type Queue struct {
	// How many may wait for one key. Absent is no bound; 0 refuses whoever would have to wait.
	Depth *int64 `key:"depth" alias:"maxQueueDepth" min:"0"`
	// The longest wait, such as 5s. Absent or zero is no time-out.
	Timeout time.Duration `key:"timeout"`
	// The longest wait in milliseconds, instead of timeout.
	TimeoutMs *int64 `key:"timeoutMs" alias:"queueTimeoutMs" min:"0"`
	// Shares the line between callers with different values of this dimension.
	FairBy string `key:"fairBy" format:"dimension"`
	// More than one turn for a value of fairBy.
	Shares []Share `key:"shares" keyed:"Name"`
}

// Share is a number by name, written as "name: 3".
type Share struct {
	Name string
	// The number.
	N int64 `key:"n" required:"true" min:"0"`
}

// Upstream is a server behind the gate.
type Upstream struct {
	// Its name, which rules call provider.
	Name string `key:"name" required:"true" format:"id"`
	// Its address: http://, https://, h2c:// or unix:/path. "demo:" is a built-in server that echoes.
	URL string `key:"url" required:"true" format:"upstream"`
	// Which paths go there. Absent is all that no other upstream matches better.
	Paths []string `key:"paths" alias:"match" format:"pattern" min:"1"`
	// Which hosts go there. Absent is all.
	Hosts []string `key:"hosts" format:"host" min:"1"`
	// Whether the client's Host header is passed on.
	PreserveHost bool `key:"preserveHost"`
	// The longest time to connect.
	ConnectTimeout time.Duration `key:"connectTimeout" default:"5s"`
	// The longest wait for the head of an answer. Zero is no bound.
	ResponseTimeout time.Duration `key:"responseTimeout" default:"60s"`
	// How long an idle connection is kept.
	IdleTimeout time.Duration `key:"idleTimeout" default:"90s"`
	// The most connections. Absent is unlimited.
	MaxConnections *int64 `key:"maxConnections" min:"1"`
	// Authorities for https, PEM. Absent is the system's.
	CAFile string `key:"caFile" format:"path"`
}

// MCPPath is a path that speaks JSON-RPC. A bare text is its pattern.
type MCPPath struct {
	// Which paths.
	Path string `key:"path" required:"true" format:"pattern"`
	// The code of a refusal. Absent is -32029 up to protocol 2025-11-25 and 429 later.
	JSONRPCCode *int64 `key:"jsonRpcCode"`
	// The HTTP status of a refusal.
	Status int64 `key:"status" enum:"200|429" default:"200"`
}

// Paths says how request paths are read before a pattern is compared.
type Paths struct {
	// What an encoded slash is: a separator, an ordinary character, or a reason to refuse.
	EncodedSlash string `key:"encodedSlash" enum:"separator|literal|reject" default:"separator"`
	// Whether ASCII letters are compared without case.
	CaseInsensitive bool `key:"caseInsensitive"`
	// What happens to a path that is not in its plain form: it passes, or is refused with 400.
	Unclean string `key:"unclean" enum:"allow|reject" default:"allow"`
	// Which form the upstream gets.
	Forward string `key:"forward" enum:"raw|canonical" default:"raw"`
}

// Bounds is the most a request may be or take.
type Bounds struct {
	// Bytes of the request's head.
	HeaderBytes int64 `key:"headerBytes" default:"32768" min:"1024" max:"1048576"`
	// Bytes of a body. Absent is unlimited.
	BodyBytes *int64 `key:"bodyBytes" min:"0"`
	// Bytes of a body that are read to find a cost.
	InspectBytes int64 `key:"inspectBytes" default:"65536" min:"1" max:"16777216"`
	// The longest time for the head of a request.
	HeaderTimeout time.Duration `key:"headerTimeout" default:"5s"`
	// The longest time for a body. Zero is no bound.
	BodyTimeout time.Duration `key:"bodyTimeout" default:"0s"`
	// How long a connection may be idle.
	IdleTimeout time.Duration `key:"idleTimeout" default:"120s"`
	// The most connections of one address. Absent is unlimited.
	ConnectionsPerIP *int64 `key:"connectionsPerIp" min:"1"`
	// The most requests at once on one HTTP/2 connection.
	ConcurrentStreams int64 `key:"concurrentStreams" default:"250" min:"1" max:"65536"`
}

// Headers says what the answers say about limits.
type Headers struct {
	// The families of fields: X-RateLimit-* with an epoch or a delta, or a draft of RateLimit.
	Families []string `key:"families" alias:"family" min:"1" enum:"off|legacy-epoch|legacy-delta|draft-6|draft-7|draft-10" default:"legacy-epoch|draft-10"`
	// When they are sent; near is at a tenth of the limit or less.
	When string `key:"when" enum:"always|near|refused" default:"always"`
	// Whose fields win on an allowed request when the upstream sends the same ones.
	Upstream string `key:"upstream" enum:"keep|replace|min" default:"replace"`
}

// Body is the body of a refusal, application/problem+json.
type Body struct {
	// The problem's type. Absent is the registered type of the reason.
	Type string `key:"type" format:"uri"`
}

// CORS says what a browser may read of a refusal.
type CORS struct {
	// Origins that may read it; "*" is all. Absent sends no CORS headers.
	Origins []string `key:"origins"`
	// Headers that scripts may read. Absent is all that the gate sends.
	Expose []string `key:"expose" format:"header"`
}

// Streams limits long answers, each kind alone and all together; every limit applies.
type Streams struct {
	Stream
	// Whether a WebSocket that sends more messages than it may is closed, with code 1008.
	// Otherwise the messages over the limit are dropped.
	CloseOverLimit bool `key:"closeOverLimit"`
	// How a WebSocket is refused: with an HTTP status, which browsers hide, or by accepting
	// it and closing it with code 1013, which they show.
	WSRefusal string `key:"wsRefusal" enum:"http|accept-then-close" default:"http"`
	// How server-sent events are refused to a request that accepts nothing else: with an HTTP
	// status, on which a browser's EventSource gives up for good, or with an empty stream
	// that tells it when to come back. MCP streams are refused with a status.
	SSERefusal string `key:"sseRefusal" enum:"http|retry" default:"http"`
	// Server-sent events alone.
	SSE Stream `key:"sse"`
	// WebSockets alone.
	WebSocket Stream `key:"websocket"`
	// MCP streams alone.
	MCP Stream `key:"mcp"`
}

// Stream limits one kind of long answer.
type Stream struct {
	// The most that one caller may have open. Absent is unlimited.
	Slots *int64 `key:"slots" min:"0"`
	// How often one caller may open one. Absent is unlimited.
	OpenRate *Rate `key:"openRate"`
	// How often one caller may send a WebSocket message. Absent is unlimited.
	Messages *Rate `key:"messages"`
	// The longest time one may stay open. Zero is no bound.
	MaxDuration time.Duration `key:"maxDuration"`
}
