package dialect

import (
	"bytes"
	"encoding/json"
	"strings"
)

// A Kind says what a Part is.
type Kind uint8

const (
	Text  Kind = iota // the inside of a JSON string, with its escapes
	JSON              // a JSON value that the model sees as text: a tool, a schema, arguments
	Image             // a picture, by its data or address
	Audio             // sound
	File              // a document
	IDs               // tokens that the client has counted itself
	Turn              // the frame of one message
)

// A Part is a piece of a request that becomes input tokens.
type Part struct {
	Kind Kind
	// Raw is the text, or the beginning of the data in base64; empty of what is only named.
	Raw []byte
	// N is how many bytes of data there are, or how many tokens of [IDs].
	N int64
	// Detail is what an image asks for: "low", "high" or empty.
	Detail string
}

// maxParts bounds the list: what is beyond it is one part of JSON.
const maxParts = 20_000

func (q *Request) add(p Part) {
	if len(q.Parts) < maxParts {
		q.Parts = append(q.Parts, p)
	}
}

func readJSON(q *Request, m member) {
	if !isNull(m.value) {
		q.add(Part{Kind: JSON, Raw: m.value})
	}
}

func readContent(q *Request, m member) { q.walk(folded(m.name), "", "", m.value, 0) }

// readMessages reads a list of messages, or the text that some allow in its place.
func readMessages(q *Request, m member) {
	if !array(m.value, func(message []byte) bool {
		if len(q.Parts) >= maxParts {
			return false
		}
		q.add(Part{Kind: Turn})
		q.walk("message", "", "", message, 0)
		return true
	}) {
		readContent(q, m)
	}
	if len(q.Parts) >= maxParts {
		q.Parts = append(q.Parts[:0], Part{Kind: JSON, Raw: m.value})
	}
}

// readInput reads what is embedded or completed: text, a list of texts, tokens, or a list of
// lists of tokens.
func readInput(q *Request, m member) {
	if q.Route.Operation != Completions {
		q.Output = 0
	}
	if isString(m.value) {
		readContent(q, m)
		return
	}
	tokens, texts := int64(0), int64(0)
	array(m.value, func(v []byte) bool {
		switch v[0] {
		case '"':
			texts++
			q.add(Part{Kind: Text, Raw: v[1 : len(v)-1]})
		case '[':
			texts++
			array(v, func([]byte) bool { tokens++; return true })
		case '{':
			q.walk("input", "", "", v, 0)
		default:
			tokens++
		}
		return true
	})
	if tokens > 0 {
		q.add(Part{Kind: IDs, N: tokens})
	}
	q.prompts = texts // each has an answer of its own
}

// silent are the members of a message that no model sees, or that only frame it.
var silent = map[string]bool{
	"type": true, "role": true, "id": true, "call_id": true, "tool_call_id": true, "tool_use_id": true, "cache_control": true, "media_type": true,
	"mimetype": true, "mime_type": true, "detail": true, "status": true, "index": true, "signature": true, "thoughtsignature": true,
	"encrypted_content": true, "file_id": true, "fileuri": true, "file_uri": true,
}

// raw are the members whose value a model sees as JSON, with its names.
var raw = map[string]bool{"arguments": true, "args": true, "functioncall": true, "function_call": true, "tool_calls": true, "response": true,
	"schema": true}

// maxDepth is how deep is walked; what lies deeper is JSON. A picture in a tool's result lies 6
// deep. Each level is read once more for its end, so that this bounds the work.
const maxDepth = 12

// walk adds what a value of a message says, at any depth. name is the member's, in lower
// case; kind and detail are what the objects around it say about data.
func (q *Request) walk(name, kind, detail string, value []byte, depth int) {
	switch {
	case len(value) == 0 || silent[name]:
	case isString(value):
		q.addText(name, kind, detail, value[1:len(value)-1])
	case raw[name] || name == "input" && depth > 1 || depth > maxDepth:
		q.add(Part{Kind: JSON, Raw: value})
	case value[0] == '[':
		array(value, func(v []byte) bool {
			q.walk(name, kind, detail, v, depth+1)
			return len(q.Parts) < maxParts
		})
	case value[0] == '{':
		kind, detail = describe(value, kind, detail)
		before := len(q.Parts)
		object(value, func(m member) bool {
			q.walk(folded(m.name), kind, detail, m.value, depth+1)
			return len(q.Parts) < maxParts
		})
		if strings.HasSuffix(kind, "file") && len(q.Parts) == before { // named by an ID alone
			q.add(Part{Kind: File})
		}
	}
}

// describe returns what an object says about the data in it: its type and its detail.
func describe(value []byte, kind, detail string) (string, string) {
	object(value, func(m member) bool {
		switch folded(m.name) {
		case "type", "media_type", "mimetype", "mime_type":
			if t := text(m.value); t != "base64" && t != "url" && t != "text" && t != "tool_result" {
				kind = t
			}
		case "detail":
			detail = text(m.value)
		}
		return true
	})
	return kind, detail
}

// addText adds a string: data, if it stands where data does, and else text. Text that only
// looks like data is text: it would pass for a picture otherwise.
func (q *Request) addText(name, kind, detail string, s []byte) {
	switch name {
	case "data", "file_data", "b64_json", "images", "url", "image_url", "file_url":
	default:
		q.add(Part{Kind: Text, Raw: s})
		return
	}
	mime, data, isURL := bytes.Cut(s, []byte(","))
	switch {
	case isURL && bytes.HasPrefix(mime, []byte("data:")):
		q.addData(string(mime[len("data:"):]), detail, data)
	case strings.HasSuffix(name, "url"):
		q.addData(name+" "+kind, detail, nil)
	default:
		q.addData(name+" "+kind, detail, s)
	}
}

// head is how much of data is kept: enough to see how large a picture is.
const head = 64 << 10

func (q *Request) addData(kind, detail string, data []byte) {
	if strings.Contains(kind, "text/") || strings.Contains(kind, "json") || strings.Contains(kind, "xml") { // however it is wrapped, the model reads it
		q.add(Part{Kind: Text, Raw: data})
		return
	}
	p := Part{Kind: Image, Raw: data[:min(len(data), head)], N: int64(len(data)) * 3 / 4, Detail: detail}
	switch {
	case strings.Contains(kind, "audio"):
		p.Kind = Audio
	case strings.Contains(kind, "image"):
	case strings.Contains(kind, "file"), strings.Contains(kind, "document"), strings.Contains(kind, "pdf"), strings.Contains(kind, "application/"),
		strings.Contains(kind, "video"):
		p.Kind = File
	}
	q.add(p)
}

func quote(s string) []byte {
	b, _ := json.Marshal(s) // a string can always be written
	return b
}
