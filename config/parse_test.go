package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestBounds gives the parser what was made to exhaust it.
func TestBounds(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	var deep strings.Builder
	for i := range 2000 {
		deep.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for name, c := range map[string]struct {
		text string
		code Code
	}{
		"aliases of aliases": {bomb, CodeTooLarge},
		"alias of itself":    {"a: &a [*a]", CodeSyntax},
		"huge":               {strings.Repeat("#", maxBytes+1), CodeTooLarge},
		"many words":         {strings.Repeat("- a\n", maxTokens), CodeTooLarge},
		"flow lists":         {strings.Repeat("[", 200_000), CodeTooLarge},
		"flow maps":          {strings.Repeat("{a: ", 100_000), CodeTooLarge},
		"block lists":        {strings.Repeat("- ", 200_000), CodeTooLarge},
		"block maps":         {deep.String(), CodeTooLarge},
		"explicit keys":      {strings.Repeat("? ", 200_000), CodeTooLarge},
		"anchors":            {strings.Repeat("&a ", 200_000), CodeTooLarge},
		"a list":             {"- a", CodeType},
		"a text":             {"a", CodeType},
		"a list as a key":    {"? [a]\n: b", CodeSyntax},
		"infinity":           {"a: .inf", CodeValue},
		"a merged text":      {"<<: a", CodeType},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			var found []Problem
			n := parse("x.yaml", []byte(c.text), func(p Problem) { found = append(found, p) })
			if n != nil || len(found) == 0 || found[0].Code != c.code {
				t.Errorf("%v; want %s", found, c.code)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestYAMLForms(t *testing.T) {
	for name, text := range map[string]string{
		"an empty file":  "",
		"only a comment": "# nothing\n",
		"null":           "null",
		"a document":     "---\nenabled: true\n",
		"JSON":           "{\n\t\"enabled\": true,\n\t\"tiers\": {\"anonymous\": \"1/s\", \"standard\": {\"limit\": \"1\\/s\"}}\n}",
		"merge keys":     "tiers:\n  anonymous: &a {limit: 1/s}\n  standard:\n    <<: *a\n    shadow: true\n",
		"line folding":   "problem:\n  type: >-\n    urn:a\n",
	} {
		t.Run(name, func(t *testing.T) {
			load(t, map[string]string{"a.yaml": text})
		})
	}
	t.Run("a tab is one column in JSON", func(t *testing.T) {
		_, problems := loadFiles(map[string]string{"a.json": "{\n\t\"enabled\": true,\n\t\"a\": {\n\t\t\"b\": 1\n\t}\n}"})
		if len(problems) != 1 || problems[0].Pos.String() != "a.json:3:2" {
			t.Errorf("%v", problems)
		}
	})
}

// FuzzLoad gives any text to the whole way from bytes to rules. It must never panic, and
// the engine must take whatever it accepts.
func FuzzLoad(f *testing.F) {
	f.Add(string(defaultFile))
	for _, s := range []string{"tiers: {a: 1/s}", "a: &a [*a]", "rules: [{id: x, limits: [{pace: 1s}]}]", "{\"a\": [", "? a\n: b", "<<: {a: 1}",
		"spector: {resilience: {rate-limiting: 5}}", "sources: [{id: a, governance: {rateLimitPerSecond: 1e-300}}]", "limits: {rules: [{id: a}]}", "enabled: !!x y", "mcp: {auth: {roles: {a: {inherits: [a]}}}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, problems := loadFiles(map[string]string{"a.yaml": text})
		if (c == nil) != (problems.Err() != nil) {
			t.Fatalf("Config %v, problems %v", c != nil, problems)
		}
		if c == nil {
			return
		}
		opens(t, c)
	})
}
