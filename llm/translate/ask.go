package translate

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// An ask is a request in no dialect. Values of type []byte are JSON as it came, nil what was
// not said.
type ask struct {
	system            content
	turns             []turn
	tools             []tool
	choice            choice
	parallel          []byte // whether several tools may be called at once
	most              []byte // tokens of output
	temperature, topP []byte
	stops             [][]byte
	user              []byte
	stream            []byte
	usage             bool // an OpenAI stream is to tell it
}

// A turn is what the user or the assistant says. A user's begins with the results of the
// calls that the assistant has made.
type turn struct {
	assistant bool
	results   []result
	content   content
	calls     []call
}

// A content is text and pictures; plain if it is one string and no list.
type content struct {
	plain bool
	parts []part
}

// A part is a text, or a picture.
type part struct {
	text    []byte
	picture *picture
}

// A picture is data in base64, or its address.
type picture struct {
	media, data string
	url         []byte
}

type tool struct{ name, description, schema []byte }

type call struct{ id, name, arguments []byte }

type result struct {
	id      []byte
	content content
}

// A choice says which tools are to be called: a word of Anthropic, and the name that goes
// with "tool". Empty is not said.
type choice struct {
	kind string
	name []byte
}

// complete checks what both dialects have to have.
func (a *ask) complete() error {
	switch {
	case len(a.turns) == 0:
		return within("messages", lose("has nobody who asks"))
	case a.turns[len(a.turns)-1].assistant:
		return within("messages", lose("ends with the assistant, which one dialect continues and the other answers"))
	case len(a.tools) == 0 && (a.choice.kind != "" || a.parallel != nil):
		return within("tool_choice", lose("needs tools"))
	}
	for i := range a.turns {
		if t := &a.turns[i]; len(t.results)+len(t.content.parts)+len(t.calls) == 0 {
			return within("messages", lose("has one that says nothing"))
		}
	}
	return nil
}

// speaks adds what a user says: after the results of calls it is of one turn with them.
func (a *ask) speaks(c content) {
	if n := len(a.turns); n > 0 {
		if t := &a.turns[n-1]; len(t.results) > 0 && len(t.content.parts) == 0 {
			t.content = c
			return
		}
	}
	a.turns = append(a.turns, turn{content: c})
}

// returns adds a result: those that follow each other are of one turn.
func (a *ask) returns(r result) {
	if n := len(a.turns); n > 0 {
		if t := &a.turns[n-1]; len(t.results) > 0 && len(t.content.parts) == 0 {
			t.results = append(t.results, r)
			return
		}
	}
	a.turns = append(a.turns, turn{results: []result{r}})
}

// word is what both dialects allow as a name, and wordID as an identifier.
var (
	word   = regexp.MustCompile(`^"[a-zA-Z0-9_-]{1,64}"$`)
	wordID = regexp.MustCompile(`^"[a-zA-Z0-9_-]+"$`)
)

func named(into *[]byte, v []byte) error { return matching(word, into, v) }

func identified(into *[]byte, v []byte) error { return matching(wordID, into, v) }

func matching(p *regexp.Regexp, into *[]byte, v []byte) error {
	if !p.Match(v) {
		return lose("is not allowed as a name in the other dialect")
	}
	*into = v
	return nil
}

// count keeps a number of tokens.
func count(into *[]byte, v []byte) error {
	if n, err := strconv.ParseInt(string(v), 10, 64); err != nil || n < 1 {
		return errShape
	}
	if *into != nil && !bytes.Equal(*into, v) {
		return lose("differs from the other bound of the output")
	}
	*into = v
	return nil
}

// share keeps a number from 0 to 1, and temperatures that only one dialect has are none.
func share(into *[]byte, v []byte) error {
	if n, err := strconv.ParseFloat(string(v), 64); err != nil || n < 0 || n > 1 {
		return lose("is no number from 0 to 1, as the other dialect wants it")
	}
	*into = v
	return nil
}

func flag(into *[]byte, v []byte) error {
	if s := string(v); s != "true" && s != "false" {
		return errShape
	}
	*into = v
	return nil
}

// schema keeps a tool's parameters.
func schema(into *[]byte, v []byte) error {
	if kindOf(v) != "object" {
		return lose("is no schema of an object")
	}
	*into = v
	return nil
}

// object keeps a value that is an object.
func object(into *[]byte, v []byte) error {
	if len(v) == 0 || v[0] != '{' {
		return errShape
	}
	*into = v
	return nil
}

// arguments keeps what a string says, which has to be an object.
func arguments(into *[]byte, v []byte) error {
	s := []byte(text(v))
	if !json.Valid(s) || bytes.ContainsRune(s, unicode.ReplacementChar) {
		return lose("is no JSON object in a string")
	}
	return object(into, s)
}

// blank reports whether a text has nothing but space.
func blank(literal []byte) bool { return strings.TrimSpace(text(literal)) == "" }
