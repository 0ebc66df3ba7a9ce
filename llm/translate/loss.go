package translate

import (
	"errors"
	"strconv"
	"strings"
)

// A Loss says what cannot be translated. Its text is for the sender of the request: it has
// names of fields, and no values.
type Loss struct {
	// Where is the path of the value: "messages[2].content[0].detail". Empty is the whole.
	Where string
	// Why completes a sentence about it: "is not known in the other dialect".
	Why string
}

// Error implements error.
func (l *Loss) Error() string {
	where := l.Where
	if where == "" {
		where = "the body"
	}
	return "translate: " + where + " " + l.Why
}

// lose returns a Loss of the value that is being read.
func lose(why string) error { return &Loss{Why: why} }

var (
	errForeign = lose("is not known in the other dialect")
	errShape   = lose("has not the form that it should have")
)

// maxName is how much of a name is told: it may be anything.
const maxName = 64

// within returns err with the member or element in which it is.
func within(name string, err error) error {
	l, ok := errors.AsType[*Loss](err)
	if !ok {
		return err
	}
	name = name[:min(len(name), maxName)]
	if l.Where != "" && !strings.HasPrefix(l.Where, "[") {
		name += "."
	}
	return &Loss{Where: name + l.Where, Why: l.Why}
}

// at returns err with the index at which it is.
func at(i int, err error) error { return within("["+strconv.Itoa(i)+"]", err) }
