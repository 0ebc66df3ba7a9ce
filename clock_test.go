package sluice_test

import (
	"go/ast"
	"slices"
	"testing"
)

// wallClock are the methods of a time.Time that lose its monotonic reading, or show that
// it is not looked at.
var wallClock = []string{
	"Unix", "UnixNano", "UnixMicro", "UnixMilli", "UTC", "Local", "In", "Round", "Truncate",
	"Date", "Clock", "Format", "AppendFormat", "MarshalText", "MarshalBinary", "GobEncode",
}

// TestTheCoreHasNoWallClock is about a clock that somebody sets back an hour, or forward.
// What a decision knows of time is differences between two monotonic readings, so that
// there is nothing to notice.
func TestTheCoreHasNoWallClock(t *testing.T) {
	packages := sources(t)
	for _, pkg := range core {
		for _, s := range packages[pkg] {
			if s.name == "calendar.go" { // a rule that speaks of months has to ask which it is
				continue
			}
			ast.Inspect(s.File, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains(wallClock, sel.Sel.Name) {
					t.Errorf("A-W11, P-006, D19 %s:%d: %s asks the wall clock; a decision takes time.Since of a time of this process", s.name, s.line(n), sel.Sel.Name)
				}
				return true
			})
		}
	}
}
