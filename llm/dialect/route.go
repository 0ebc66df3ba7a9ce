package dialect

import (
	"net/http"
	"net/url"
	"strings"
)

// A Name is the name of a dialect.
type Name string

// The dialects.
const (
	OpenAI    Name = "openai"    // and whatever speaks like it
	Anthropic Name = "anthropic" // Messages
	Gemini    Name = "gemini"    // and Vertex AI
	Ollama    Name = "ollama"    // its native form
)

// Names returns all dialects.
func Names() []Name { return []Name{OpenAI, Anthropic, Gemini, Ollama} }

// An Operation is a kind of call.
type Operation uint8

const (
	// Other is a call that is known to use no tokens, such as a list of models, or one
	// that nobody here knows.
	Other          Operation = iota
	Chat                     // OpenAI: chat/completions
	Completions              // OpenAI: completions
	Responses                // OpenAI: responses
	Embeddings               // OpenAI: embeddings
	Messages                 // Anthropic: messages
	CountTokens              // Anthropic and Gemini: a count of tokens, which uses none
	Generate                 // Gemini: generateContent
	StreamGenerate           // Gemini: streamGenerateContent
	EmbedContent             // Gemini: embedContent
	OllamaChat               // Ollama: api/chat
	OllamaGenerate           // Ollama: api/generate
	OllamaEmbed              // Ollama: api/embed
)

var operationNames = [...]string{"other", "chat", "completions", "responses", "embeddings", "messages", "count-tokens",
	"generate", "stream-generate", "embed-content", "ollama-chat", "ollama-generate", "ollama-embed"}

// String returns the operation's name, as logs and metrics spell it.
func (o Operation) String() string {
	if int(o) >= len(operationNames) {
		return "other"
	}
	return operationNames[o]
}

// UsesTokens reports whether a call of this kind is charged by tokens.
func (o Operation) UsesTokens() bool { return o != Other && o != CountTokens }

// A Route is what a request's method and path say.
type Route struct {
	Dialect   Name
	Operation Operation
	// Model is the model that the path names: Gemini's, or the deployment of Azure.
	Model string
	// Known is false for a path that no provider documents.
	Known bool
	// Array says that a stream is one JSON array instead of events: Gemini without alt=sse.
	Array bool
}

// Find returns what a request is. The path may have a prefix, such as /v1, /openai/v1 or
// /api/v1: what counts is its end, as providers differ in the rest. A path is known however it
// is spelt, as some servers do not mind a slash more or a letter that is large.
func Find(method string, path, query string) Route {
	path = plain(path)
	if r, ok := findGemini(path, query); ok {
		return asked(method, r)
	}
	for _, e := range endpoints {
		if hasEnd(path, e.path) {
			r := Route{Dialect: e.dialect, Operation: e.operation, Known: true}
			if before := path[:len(path)-len(e.path)]; e.dialect == OpenAI {
				if _, deployment, ok := strings.Cut(before, "/deployments/"); ok && !strings.Contains(deployment, "/") {
					r.Model = deployment
				}
			}
			return asked(method, r)
		}
	}
	return Route{Dialect: guess(path), Known: isListing(method, path)}
}

// plain is a path without what some servers overlook: empty segments, a slash at the end, and
// parameters behind a semicolon.
func plain(path string) string {
	if !strings.Contains(path, "//") && !strings.Contains(path, ";") && !strings.HasSuffix(path, "/") {
		return path
	}
	var b strings.Builder
	for segment := range strings.SplitSeq(path, "/") {
		if segment, _, _ = strings.Cut(segment, ";"); segment != "" {
			b.WriteString("/" + segment)
		}
	}
	return b.String()
}

// hasEnd reports whether path ends so, without regard to case.
func hasEnd(path, end string) bool {
	return len(path) >= len(end) && strings.EqualFold(path[len(path)-len(end):], end)
}

// Sane reports whether a path means the same to everybody who reads it: it has no segment
// that leads upwards, and no backslash.
func Sane(path string) bool {
	if strings.Contains(path, "\\") {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		segment, _, _ = strings.Cut(segment, ";")
		if segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

// endpoints are the ends of paths, longest first where one is the end of another.
var endpoints = []struct {
	path      string
	dialect   Name
	operation Operation
}{
	{"/chat/completions", OpenAI, Chat},
	{"/completions", OpenAI, Completions},
	{"/responses", OpenAI, Responses},
	{"/api/embeddings", Ollama, OllamaEmbed}, // the older form
	{"/embeddings", OpenAI, Embeddings},
	{"/messages/count_tokens", Anthropic, CountTokens},
	{"/messages", Anthropic, Messages},
	{"/api/chat", Ollama, OllamaChat},
	{"/api/generate", Ollama, OllamaGenerate},
	{"/api/embed", Ollama, OllamaEmbed},
}

// asked keeps a route's operation for a POST alone: to read what was made before costs no
// tokens.
func asked(method string, r Route) Route {
	if method != http.MethodPost {
		r.Operation = Other
	}
	return r
}

// findGemini reads …/models/NAME:generateContent and its relatives.
func findGemini(path, query string) (Route, bool) {
	before, verb, ok := cutLast(path, ":")
	if !ok {
		return Route{}, false
	}
	operation, ok := map[string]Operation{
		"generateContent": Generate, "streamGenerateContent": StreamGenerate, "countTokens": CountTokens,
		"embedContent": EmbedContent, "batchEmbedContents": EmbedContent,
	}[verb]
	_, model, named := cutLast(before, "/")
	if !ok || !named || model == "" {
		return Route{}, false
	}
	sse := false
	for pair := range strings.SplitSeq(query, "&") {
		sse = sse || pair == "alt=sse"
	}
	return Route{Dialect: Gemini, Operation: operation, Model: model, Known: true, Array: operation == StreamGenerate && !sse}, true
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Tail returns what of a path follows the base URL of a provider, with model in the place of
// the model that the path names. The path is as it was read; what is returned is escaped.
func (r Route) Tail(path, model string) string {
	path = plain(path)
	if _, ok := findGemini(path, ""); ok {
		_, verb, _ := cutLast(path, ":")
		return "/models/" + url.PathEscape(model) + ":" + verb
	}
	for _, e := range endpoints {
		if hasEnd(path, e.path) {
			return e.path
		}
	}
	escaped := func(s string) string { return (&url.URL{Path: s}).EscapedPath() }
	for rest := path; rest != ""; { // behind the version
		segment, after, more := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		if !more {
			break
		}
		if len(segment) > 1 && segment[0] == 'v' && segment[1] >= '0' && segment[1] <= '9' {
			return escaped("/" + after)
		}
		rest = after
	}
	return escaped(path)
}

// isListing reports whether a request only looks at models.
func isListing(method, path string) bool {
	return (method == http.MethodGet || method == http.MethodHead) &&
		(strings.HasSuffix(path, "/models") || strings.Contains(path, "/models/") ||
			strings.HasSuffix(path, "/api/tags") || strings.HasSuffix(path, "/api/version") || strings.HasSuffix(path, "/api/ps"))
}

// guess is the dialect in which an unknown path is answered.
func guess(path string) Name {
	switch {
	case strings.Contains(path, "/v1beta"), strings.Contains(path, "/publishers/google"):
		return Gemini
	case strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/api/v"):
		return Ollama
	}
	return OpenAI
}
