package dialect

import (
	"bytes"
	"math"
	"strings"
)

// A Request is what a body asks for. It refers to the body's bytes.
type Request struct {
	Route Route
	// Model is the model that is asked for, in the body or the path; empty if neither says.
	Model string
	// Stream says that the answer is to come in pieces.
	Stream bool
	// Output is how many tokens the answer may have, over all choices; -1 is not said, and
	// the model's own bound counts. Operations without an output have 0.
	Output int64
	// Choices is how many answers are asked for, at least 1.
	Choices int64
	// Parts are what becomes input tokens, in the order of the body.
	Parts []Part
	// Hidden says that the input is more than what stands here: an earlier response, a
	// stored prompt, cached content.
	Hidden bool
	// AskedUsage says that the client itself wants usage in an OpenAI stream.
	AskedUsage bool

	body    []byte
	prompts int64 // how many are completed at once
	model   *span // of the model's value
	options *span // of stream_options' value
	close   int   // of the body's last brace
	twice   bool  // an object in it says something twice
}

// A span is a part of a body.
type span struct{ from, to int }

// Read reads the body of a request on this route. A body of an operation that uses no
// tokens need not be JSON. It keeps body and does not change it.
func Read(r Route, body []byte) (*Request, error) {
	q := &Request{Route: r, Model: r.Model, Output: -1, Choices: 1, body: body, Stream: r.Operation == StreamGenerate}
	if r.Operation == OllamaChat || r.Operation == OllamaGenerate {
		q.Stream = true // unless the body says otherwise
	}
	read, known := readers[r.Operation]
	if !known {
		object(body, func(m member) bool { // as far as it can be read
			if string(m.name) == "model" && r.Model == "" {
				q.Model = text(m.value)
			}
			return true
		})
		q.Output = 0
		return q, nil
	}
	if !q.fields(read) {
		return nil, ErrMalformed
	}
	if r.Operation == EmbedContent {
		q.Output = 0
	}
	q.Choices = times(q.Choices, max(1, q.prompts))
	if q.Output > 0 {
		q.Output = times(q.Output, q.Choices)
	}
	return q, nil
}

// A reader reads one field of an operation's body.
type reader map[string]func(q *Request, m member)

// fields reads the members of the body. Names are compared without case, as some servers
// do: a body that means one model to this reader and another to the server would be charged
// wrongly.
func (q *Request) fields(read reader) bool {
	seen, twice := map[string]bool{}, false
	ok := object(q.body, func(m member) bool {
		name := folded(m.name)
		if f := read[name]; f != nil {
			twice = twice || seen[name]
			seen[name] = true
			f(q, m)
		}
		return true
	})
	end := bytes.LastIndexByte(q.body, '}')
	if !ok || twice || q.twice || end < 0 || len(bytes.TrimSpace(q.body[end+1:])) > 0 {
		return false
	}
	q.close = end
	return true
}

func times(a, b int64) int64 {
	if a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}

// The fields of each operation. Gemini's model stands in the path.
var readers = map[Operation]reader{
	Chat: {
		"model": readModel, "stream": readStream, "stream_options": readOptions, "n": readChoices,
		"max_completion_tokens": readOutput, "max_tokens": readOutput,
		"messages": readMessages, "tools": readJSON, "functions": readJSON, "response_format": readJSON, "prediction": readContent,
	},
	Completions: {
		"model": readModel, "stream": readStream, "stream_options": readOptions, "n": readChoices, "best_of": readChoices,
		"max_tokens": readOutput, "prompt": readInput, "suffix": readContent,
	},
	Responses: {
		"model": readModel, "stream": readStream, "max_output_tokens": readOutput, "input": readMessages, "instructions": readContent,
		"tools": readJSON, "text": readJSON, "previous_response_id": readHidden, "prompt": readHidden, "conversation": readHidden,
	},
	Embeddings: {"model": readModel, "input": readInput, "dimensions": noOutput},
	Messages: {
		"model": readModel, "stream": readStream, "max_tokens": readOutput, "system": readContent, "messages": readMessages,
		"tools": readJSON, "container": readHidden,
	},
	Generate:       geminiFields,
	StreamGenerate: geminiFields,
	EmbedContent:   {"content": readContent, "requests": readMessages},
	OllamaChat: {
		"model": readModel, "stream": readStream, "messages": readMessages, "tools": readJSON, "format": readJSON, "options": readOllamaOptions,
	},
	OllamaGenerate: {
		"model": readModel, "stream": readStream, "prompt": readContent, "system": readContent, "suffix": readContent, "template": readContent,
		"images": readContent, "format": readJSON, "options": readOllamaOptions, "context": readHidden,
	},
	OllamaEmbed: {"model": readModel, "input": readInput, "prompt": readInput},
}

var geminiFields = reader{
	"contents": readMessages, "systeminstruction": readContent, "system_instruction": readContent, "tools": readJSON,
	"cachedcontent": readHidden, "cached_content": readHidden, "generationconfig": readGeneration, "generation_config": readGeneration,
}

func readModel(q *Request, m member) {
	q.Model, q.model = text(m.value), &span{m.at, m.at + len(m.value)}
}

func readStream(q *Request, m member) { q.Stream = string(m.value) == "true" }

func readChoices(q *Request, m member) { q.Choices = max(q.Choices, number(m.value)) }

// readOutput takes the larger of several bounds: which one a server believes, it alone knows.
// Zero is no bound either: some servers take it for none.
func readOutput(q *Request, m member) {
	if n := number(m.value); n > 0 {
		q.Output = max(q.Output, n)
	}
}

func noOutput(*Request, member) {}

func readHidden(q *Request, m member) { q.Hidden = q.Hidden || !isNull(m.value) }

func readOptions(q *Request, m member) {
	q.options = &span{m.at, m.at + len(m.value)}
	q.once(m.value, func(name string, m member) {
		if name == "include_usage" { // in other letters, it is one option for some servers and none for others
			q.AskedUsage, q.twice = string(m.value) == "true", q.twice || string(m.name) != name
		}
	})
}

// once calls visit for each member of an object inside of the body, by its folded name. If a
// name stands twice, the body is malformed.
func (q *Request) once(value []byte, visit func(name string, m member)) {
	seen := map[string]bool{}
	object(value, func(m member) bool {
		name := folded(m.name)
		q.twice = q.twice || seen[name]
		seen[name] = true
		visit(name, m)
		return true
	})
}

func readGeneration(q *Request, m member) {
	q.once(m.value, func(name string, m member) {
		switch strings.ReplaceAll(name, "_", "") {
		case "maxoutputtokens":
			readOutput(q, m)
		case "candidatecount":
			readChoices(q, m)
		case "responseschema", "responsejsonschema":
			readJSON(q, m)
		}
	})
}

// readOllamaOptions reads num_predict, of which -1 and -2 have no bound.
func readOllamaOptions(q *Request, m member) {
	q.once(m.value, func(name string, m member) {
		if name == "num_predict" {
			readOutput(q, m)
		}
	})
}

// Body returns the body as it came.
func (q *Request) Body() []byte { return q.body }

// Rewrite returns the body with another model, unless model is empty, and with usage asked
// for in an OpenAI stream if withUsage is set, in pieces that follow each other. All else
// keeps its bytes, and is not copied. A model in the path is not the body's business.
func (q *Request) Rewrite(model string, withUsage bool) [][]byte {
	var edits []edit
	if model != "" && q.model != nil && model != q.Model {
		edits = append(edits, edit{*q.model, quote(model)})
	}
	if withUsage && q.InjectsUsage() {
		edits = append(edits, q.usageEdit())
	}
	return apply(q.body, edits)
}

// InjectsUsage reports whether usage has to be asked for in the client's stead: in a stream
// whose dialect sends none otherwise.
func (q *Request) InjectsUsage() bool {
	return q.Stream && !q.AskedUsage && (q.Route.Operation == Chat || q.Route.Operation == Completions)
}

// An edit puts text in the place of a span.
type edit struct {
	span
	text []byte
}

// usageEdit sets include_usage and leaves the client's other options as they are.
func (q *Request) usageEdit() edit {
	const wanted = `"include_usage":true`
	if q.options == nil {
		return edit{span{q.close, q.close}, []byte(`,"stream_options":{` + wanted + `}`)}
	}
	value := q.body[q.options.from:q.options.to]
	var given *span
	empty := true
	isObject := object(value, func(m member) bool {
		empty = false
		if string(m.name) == "include_usage" {
			given = &span{q.options.from + m.at, q.options.from + m.at + len(m.value)}
		}
		return true
	})
	switch {
	case !isObject:
		return edit{*q.options, []byte(`{` + wanted + `}`)}
	case given != nil:
		return edit{*given, []byte("true")}
	case empty:
		return edit{span{q.options.from + 1, q.options.from + 1}, []byte(wanted)}
	}
	return edit{span{q.options.from + 1, q.options.from + 1}, []byte(wanted + ",")}
}

// apply carries out edits, which do not overlap.
func apply(body []byte, edits []edit) (pieces [][]byte) {
	if len(edits) == 2 && edits[0].from > edits[1].from {
		edits[0], edits[1] = edits[1], edits[0]
	}
	at := 0
	for _, e := range edits {
		pieces = append(pieces, body[at:e.from], e.text)
		at = e.to
	}
	return append(pieces, body[at:])
}

// Opaque stands for a body that cannot be read, as if all of it were input.
func Opaque(r Route, body []byte) *Request {
	return &Request{Route: r, Model: r.Model, Output: -1, Choices: 1, Parts: []Part{{Kind: JSON, Raw: body}}, body: body}
}
