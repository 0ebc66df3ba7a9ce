package main

import (
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		what, in string
		printed  string
		leftOut  string
		line     string
		good     bool
	}{
		{
			what: "what passes is quiet, and its package has a line",
			in: `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.010s\n"}
{"Action":"pass","Package":"p"}
`,
			printed: "ok  \tp\t0.010s\n",
			line:    "1 passed, 0 failed",
			good:    true,
		},
		{
			what: "what fails says why, and counts once",
			in: `{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:1: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.010s\n"}
{"Action":"fail","Package":"p"}
`,
			printed: "    b_test.go:1: wrong\nFAIL\tp\t0.010s\n",
			line:    "1 passed, 1 failed",
		},
		{
			what: "a skipped test is told, and why",
			in: `{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: on port 1\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:9: there is no server\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:9: there is no server\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"skip","Package":"p","Test":"TestD"}
{"Action":"pass","Package":"p"}
`,
			leftOut: "left out: no reason given (1 skipped)\nleft out: there is no server (2 skipped)\n",
			line:    "1 passed, 0 failed, 3 skipped",
			good:    true,
		},
		{
			what: "a package without tests is no skipped test",
			in:   `{"Action":"skip","Package":"p"}` + "\n",
			line: "0 passed, 0 failed",
		},
		{
			what: "a package that does not build is a failure",
			in: `{"ImportPath":"p","Action":"build-output","Output":"p.go:1:1: expected 'package'\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p"}
`,
			printed: "p.go:1:1: expected 'package'\nFAIL\tp [build failed]\n",
			line:    "0 passed, 1 failed",
		},
		{
			what: "a panic ends the package: what its test said is printed",
			in: `{"Action":"output","Package":"p","Test":"TestA","Output":"panic: no\n"}
{"Action":"fail","Package":"p"}
`,
			printed: "panic: no\n",
			line:    "0 passed, 1 failed",
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			var out strings.Builder
			got, err := read(strings.NewReader(c.in), &out)
			if err != nil {
				t.Fatal(err)
			}
			if out.String() != c.printed || got.leftOut() != c.leftOut || got.String() != c.line || got.good() != c.good {
				t.Errorf("printed %q, %q and %q, good %v\nwant    %q, %q and %q, good %v",
					out.String(), got.leftOut(), got, got.good(), c.printed, c.leftOut, c.line, c.good)
			}
		})
	}
}

func TestReadOtherText(t *testing.T) {
	if _, err := read(strings.NewReader("go: no such package\n"), new(strings.Builder)); err == nil {
		t.Error("text that is no JSON was accepted")
	}
}
