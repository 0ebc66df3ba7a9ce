package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// maxProblems bounds how many problems are told one by one.
const maxProblems = 100

// A form reads JSON that a provider has sent, and collects everything that is wrong with
// it, so that its author has to try once and not once for each mistake.
type form struct {
	problems []string
	more     int
}

func (f *form) problem(format string, args ...any) {
	if len(f.problems) == maxProblems {
		f.more++
		return
	}
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

// all returns the problems; nil is none.
func (f *form) all() []string {
	if f.more > 0 {
		return append(f.problems, fmt.Sprintf("and %d more", f.more))
	}
	return f.problems
}

// object reads an object that may have the known members and no others; nil is no object.
// Names are compared exactly: encoding/json would take "Domain" for "domain", and the last
// of two.
func (f *form) object(raw json.RawMessage, what string, known ...string) map[string]json.RawMessage {
	in := json.NewDecoder(bytes.NewReader(raw))
	if open, err := in.Token(); err != nil || open != json.Delim('{') {
		f.problem("%s must be an object", what)
		return nil
	}
	members := map[string]json.RawMessage{}
	for in.More() {
		name, err := in.Token()
		var value json.RawMessage
		if err == nil {
			err = in.Decode(&value)
		}
		if err != nil {
			f.problem("%s is not JSON", what)
			return nil
		}
		key := name.(string) // the decoder lets nothing else stand there
		switch _, twice := members[key]; {
		case twice:
			f.problem("%s: %s stands twice", what, quote(key))
		case !slices.Contains(known, key):
			f.problem("%s: unknown key %s", what, quote(key))
		default:
			members[key] = value
		}
	}
	return members
}

// list reads an array of at most most elements.
func (f *form) list(raw json.RawMessage, what string, most int) (list []json.RawMessage) {
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		f.problem("%s must be an array", what)
		return nil
	}
	if len(list) > most {
		f.problem("%s: at most %d entries", what, most)
		return nil
	}
	return list
}

// text reads a string of 1 to most bytes.
func (f *form) text(raw json.RawMessage, what string, most int) (s string, ok bool) {
	if err := json.Unmarshal(raw, &s); err != nil || s == "" || len(s) > most {
		f.problem("%s must be a string of 1 to %d bytes", what, most)
		return "", false
	}
	return s, true
}

// quote shows the beginning of what was sent, in one line.
func quote(s string) string {
	if len(s) > 100 {
		return fmt.Sprintf("%q…", s[:100])
	}
	return fmt.Sprintf("%q", s)
}
