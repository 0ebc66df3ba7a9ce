// Package schema checks the arguments of calls against the input schemas of tools.
//
// Schemas come from providers and arguments from callers, and either may be hostile.
// Whatever the two are, nothing is fetched, nothing panics, and compiling and checking end
// within bounds: the worst schema that was found takes 0.7 s to compile, once for each
// time a provider lists its tools, and the worst check 0.13 s. What a check could take is
// added up before it begins; if that is too much it does not begin. What is refused for
// such a reason is said in the same way as any other fault. Decision 0130 has what was
// measured.
package schema

import (
	"encoding/json"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A Schema checks arguments. It is safe for concurrent use. Use [Compile].
type Schema struct {
	root        *jsonschema.Schema
	parts       []*part         // the root's first
	names       map[string]bool // of properties
	notes       []string
	headers     []Header
	headerFault string
}

// A Problem is why a schema cannot be used. It has text of the schema, but at most 300
// bytes and none that a terminal obeys.
type Problem struct{ text string }

// String returns one sentence.
func (p *Problem) String() string { return p.text }

func problem(fault string) *Problem { return &Problem{cut("the schema cannot be used: " + fault)} }

// A Mismatch is the first cause for which arguments do not fit: one sentence for who made
// the call. It has names and bounds from the schema, and neither a value from the
// arguments nor a name that only they have.
type Mismatch struct {
	// Pointer is the place in the arguments, as a JSON pointer. A name that the schema
	// does not have is a *.
	Pointer string
	// Cause is what is wrong there.
	Cause string
}

// String returns one sentence of at most 300 bytes.
func (m *Mismatch) String() string {
	if m.Pointer == "" {
		return cut("arguments: " + m.Cause)
	}
	return cut("arguments" + m.Pointer + ": " + m.Cause)
}

// Notes says which keywords of the schema are not checked, and why; each in one sentence
// of at most 300 bytes.
func (s *Schema) Notes() []string { return s.notes }

// Validate returns nil if the arguments of a call fit the schema. No arguments are those
// of an empty object. Numbers are compared exactly, whatever their size (M-092). It
// refuses arguments that have
//   - more than 4 MiB, 128 levels or 100 000 values, or a number of more than 128 digits
//     or with an exponent beyond 400;
//   - the same member twice in one object (M-028);
//   - so much for this schema to do that checking it could take some tenths of a second.
func (s *Schema) Validate(arguments json.RawMessage) *Mismatch {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	v, fault := argumentBounds.read(arguments)
	if fault != "" {
		return &Mismatch{Cause: "they have " + fault}
	}
	if m := (meter{left: mostWork}); !m.visit(s.parts[0], v) {
		return &Mismatch{Cause: "to check them would take too long; send less at once"}
	}
	return s.mismatch(v, s.check(v))
}

// check asks the library. A panic there is a fault, see [compile].
func (s *Schema) check(v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errPanic
		}
	}()
	return s.root.Validate(v)
}
