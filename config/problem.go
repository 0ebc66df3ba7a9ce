package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Pos is a place in a configuration file. The zero Pos is nowhere.
type Pos struct {
	// File is the path as it was given, or "--set" for an override.
	File string
	// Line and Column count from 1, columns in characters; zero if there are none.
	Line, Column int
}

// String returns the place as editors and compilers write it: "sluice.yaml:12:5".
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// IsZero reports whether p is nowhere.
func (p Pos) IsZero() bool { return p == Pos{} }

// A Code names a kind of problem for machines. Codes never change their meaning.
type Code string

// The codes. A code that begins with "warn-" never stops a start.
const (
	CodeRead      Code = "read"           // a file cannot be read
	CodeSyntax    Code = "syntax"         // it is no YAML or JSON
	CodeTooLarge  Code = "too-large"      // too many bytes, levels or values
	CodeUnknown   Code = "unknown-key"    // no such key here
	CodeDuplicate Code = "duplicate"      // the same key, id or name twice
	CodeType      Code = "type"           // a list where a text belongs, and the like
	CodeUnit      Code = "unit"           // a unit is missing, wrong, or in the wrong place
	CodeValue     Code = "value"          // not one of the values that are allowed
	CodeRange     Code = "range"          // too small, too large, negative
	CodeRequired  Code = "required"       // a key that must be there is not
	CodeSecret    Code = "secret"         // a secret in clear, or one that cannot be read
	CodeID        Code = "rule-id"        // a rule id with other characters than allowed
	CodePattern   Code = "pattern"        // a path pattern that cannot be read or cannot match
	CodeTie       Code = "tie"            // two patterns of which none is more specific
	CodeReference Code = "reference"      // a name that is defined nowhere
	CodeConflict  Code = "conflict"       // two settings that exclude each other
	CodeExposed   Code = "exposed"        // an administration port open to everybody
	WarnDeniesAll Code = "warn-denies"    // a limit of zero
	WarnDepth     Code = "warn-depth"     // places in a queue that nobody can wait in
	WarnUnserved  Code = "warn-unserved"  // a section that this version does not serve
	WarnShadowed  Code = "warn-shadowed"  // a limit that another one makes unreachable
	WarnTrust     Code = "warn-trust"     // everybody is a trusted proxy
	WarnPrecision Code = "warn-precision" // a window below a second, which headers cannot say
	WarnMissing   Code = "warn-missing"   // something is probably forgotten
)

// A Problem is one thing that is wrong, or looks wrong, with a file.
type Problem struct {
	Pos     Pos
	Code    Code
	Key     string // the key as a dotted path, such as "endpoints[1].burst", or a rule's id
	Message string // what is wrong and what to do
	Strict  bool   // a warning that is an error because Options.Strict asks for it
}

// Warning reports whether the problem does not stop a start.
func (p Problem) Warning() bool { return strings.HasPrefix(string(p.Code), "warn-") && !p.Strict }

// String returns "file:line:column: error[code] key: message" on one line.
func (p Problem) String() string {
	level := "error"
	if p.Warning() {
		level = "warning"
	}
	var b strings.Builder
	if !p.Pos.IsZero() {
		fmt.Fprintf(&b, "%s: ", p.Pos)
	}
	fmt.Fprintf(&b, "%s[%s] ", level, p.Code)
	if p.Key != "" {
		fmt.Fprintf(&b, "%s: ", p.Key)
	}
	return b.String() + p.Message
}

// Problems are everything found, in the order of the files.
type Problems []Problem

// Errors returns the problems that stop a start.
func (ps Problems) Errors() Problems { return ps.filter(false) }

// Warnings returns the problems that do not.
func (ps Problems) Warnings() Problems { return ps.filter(true) }

func (ps Problems) filter(warning bool) Problems {
	return slices.DeleteFunc(slices.Clone(ps), func(p Problem) bool { return p.Warning() != warning })
}

// Err returns an error with one line for each problem that stops a start, or nil.
func (ps Problems) Err() error {
	var lines []error
	for _, p := range ps.Errors() {
		lines = append(lines, errors.New(p.String()))
	}
	return errors.Join(lines...)
}

// sorted orders problems by file, in the order the files were given, and by place.
func (ps Problems) sorted(files []string) Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(slices.Index(files, a.Pos.File), slices.Index(files, b.Pos.File)),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
	return ps
}

// settled drops the warnings that an error explains.
func (ps Problems) settled() Problems {
	errors := ps.Errors()
	return slices.DeleteFunc(ps, func(p Problem) bool { return p.Warning() && errors.explain(p) })
}

// explain reports whether a later problem may only be a consequence of an earlier one: a
// value that could not be read looks like one that is missing. Then their keys are the
// same, or one contains the other.
func (ps Problems) explain(later Problem) bool {
	return slices.ContainsFunc(ps, func(p Problem) bool { return within(p.Key, later.Key) || within(later.Key, p.Key) })
}

// within reports whether key is outer or stands in it.
func within(key, outer string) bool {
	rest, ok := strings.CutPrefix(key, outer)
	return ok && outer != "" && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
