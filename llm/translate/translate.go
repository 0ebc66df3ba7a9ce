package translate

import (
	"encoding/json"

	"github.com/sluicegate/sluice/llm/dialect"
)

// Options are what has to be known beside a request.
type Options struct {
	// Model is the model's name at the provider.
	Model string
	// MaxOutput is how many tokens the model can write. Anthropic wants a bound; a chat that
	// has none gets this one, which takes nothing from it. Zero is not known, and such a
	// chat is a [*Loss] then.
	MaxOutput int64
	// StreamUsage asks an OpenAI provider for the usage of a stream.
	StreamUsage bool
	// Created is when the answer was made, in seconds since 1970: OpenAI's says so, and
	// Anthropic's does not.
	Created int64
}

// A Translation is a request in the provider's dialect, and the way back for its answer. It
// does not change, and is safe for concurrent use.
type Translation struct {
	// Route is what the request is for the provider.
	Route dialect.Route
	// Body is the request's body.
	Body []byte
	// AsksUsage says that it asks for the usage of a stream.
	AsksUsage bool

	usage   bool // an OpenAI client wants it in its stream
	created int64
}

// Path is the end of the path to which the request goes.
func (t *Translation) Path() string {
	if t.Route.Operation == dialect.Messages {
		return "/messages"
	}
	return "/chat/completions"
}

// Can reports whether requests on a route can be translated for a provider that speaks d.
func Can(r dialect.Route, d dialect.Name) bool {
	return r.Operation == dialect.Chat && d == dialect.Anthropic || r.Operation == dialect.Messages && d == dialect.OpenAI
}

// Request translates a body for a provider of the other dialect. It returns a [*Loss] if
// that cannot be done without one. It keeps nothing of body.
func Request(r dialect.Route, body []byte, o Options) (*Translation, error) {
	if !json.Valid(body) {
		return nil, lose("is no JSON")
	}
	read, write := readChat, (*ask).writeMessages
	t := &Translation{Route: dialect.Route{Dialect: dialect.Anthropic, Operation: dialect.Messages, Known: true}, created: o.Created}
	switch r.Operation {
	case dialect.Chat:
	case dialect.Messages:
		read, write = readMessages, (*ask).writeChat
		t.Route.Dialect, t.Route.Operation = dialect.OpenAI, dialect.Chat
	default:
		return nil, lose("is of an operation that only one dialect has")
	}
	a, err := read(body)
	if err == nil {
		err = a.complete()
	}
	if err != nil {
		return nil, err
	}
	t.usage = a.usage
	t.AsksUsage = o.StreamUsage && t.Route.Operation == dialect.Chat && string(a.stream) == "true"
	t.Body, err = write(a, &o)
	return t, err
}

// Answer translates a provider's answer that is no stream and no error.
func (t *Translation) Answer(body []byte) ([]byte, error) {
	if !json.Valid(body) {
		return nil, lose("is no JSON")
	}
	m := t.Route.NewMeter(nil)
	m.ReadWhole(body)
	usage, told := m.Usage()
	if !told {
		usage = dialect.Usage{}
	}
	if t.Route.Operation == dialect.Messages {
		w := &chatAnswer{created: t.created}
		err := readMessage(body, &usage, w)
		return w.b, err
	}
	w := &messageAnswer{}
	err := readCompletion(body, &usage, w)
	return w.b, err
}
