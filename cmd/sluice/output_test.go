package main

import (
	"strings"
	"testing"
)

// TestTable writes what others have named, such as a tool whose name clears the screen.
func TestTable(t *testing.T) {
	var list table
	list.row("TOOL", "CALLER")
	list.row("größe", "user:alice")
	list.row("a\x1b[2Jb\nc", "user:\u202ebob")
	var out strings.Builder
	if err := list.write(&out, ""); err != nil {
		t.Fatal(err)
	}
	want := "TOOL      CALLER\ngröße     user:alice\na\ufffd[2Jb\ufffdc  user:\ufffdbob\n"
	if out.String() != want {
		t.Errorf("%q\nwant\n%q", out.String(), want)
	}
}
