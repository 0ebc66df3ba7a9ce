// Package docs_test holds the documentation to its word: every configuration in it
// loads, every program in it compiles, and every link in it leads somewhere.
package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/config"
)

// root is where the repository begins.
const root = ".."

const module = "github.com/sluicegate/sluice"

// A block is a fenced block of a page.
type block struct {
	page string
	line int
	lang string
	text string
}

// pages returns the text of every page for readers, by its path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	list := map[string]string{}
	for _, glob := range []string{"*.md", "docs/*.md", "docs/*/*.md", "bench/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			list[name] = string(text)
		}
	}
	return list
}

// blocks returns the blocks in one language.
func blocks(t *testing.T, lang string) []block {
	t.Helper()
	var list []block
	for page, text := range pages(t) {
		var open *block
		for i, line := range strings.Split(text, "\n") {
			fence, isFence := strings.CutPrefix(line, "```")
			switch {
			case isFence && open == nil:
				open = &block{page: page, line: i + 2, lang: strings.TrimSpace(fence)}
			case isFence:
				if open.lang == lang {
					list = append(list, *open)
				}
				open = nil
			case open != nil:
				open.text += line + "\n"
			}
		}
		if open != nil {
			t.Errorf("%s:%d: the block has no end", page, open.line-1)
		}
	}
	if len(list) == 0 {
		t.Fatalf("no blocks of %s: the test looks in the wrong place", lang)
	}
	return list
}

// base is what a page need not repeat to show the part of a file that it is about.
const base = `{listen: {gate: ":8080"}, upstreams: [{name: app, url: "http://127.0.0.1:9000"}]}`

// TestConfigurationsLoad loads each block on top of the base. Warnings are allowed: a page
// may be about one.
func TestConfigurationsLoad(t *testing.T) {
	secret := strings.Repeat("s3cret-", 8)
	for _, b := range blocks(t, "yaml") {
		o := config.Options{
			Env: func(name string) (string, bool) { return secret + name, true }, // each its own
			ReadFile: func(path string) ([]byte, error) {
				switch filepath.Base(path) {
				case "base.yaml":
					return []byte(base), nil
				case filepath.Base(b.page):
					return []byte(b.text), nil
				}
				return []byte(secret), nil
			},
		}
		if _, problems := config.Load([]string{"base.yaml", b.page}, o); problems.Err() != nil {
			t.Errorf("%s:%d: the configuration does not load; lines count from there:\n%v", b.page, b.line, problems.Err())
		}
	}
}

// TestProgramsCompile compiles the blocks that are programs. A block that is less stands
// word for word in a test that runs, or it would be text that nobody checks.
func TestProgramsCompile(t *testing.T) {
	examples := flat(t, filepath.Join(root, "example_test.go"))
	for _, b := range blocks(t, "go") {
		if !strings.HasPrefix(b.text, "package ") {
			if !strings.Contains(examples, squeeze(b.text)) {
				t.Errorf("%s:%d: the lines do not stand in example_test.go; put them there or make them a program", b.page, b.line)
			}
			continue
		}
		path := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(path, []byte(b.text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("go", "vet", path)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s:%d: the program does not compile: %v\n%s", b.page, b.line, err, out)
		}
	}
}

// TestTreeIsWhole looks for every package in the tree that ARCHITECTURE.md draws.
func TestTreeIsWhole(t *testing.T) {
	cmd := exec.Command("go", "list", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	text := pages(t)["ARCHITECTURE.md"]
	for _, pkg := range strings.Fields(string(out))[1:] {
		name := filepath.Base(pkg)
		if strings.HasPrefix(pkg, module+"/cmd/") {
			name = "cmd/" + name
		}
		if !strings.Contains(text, "─ "+name+" ") {
			t.Errorf("ARCHITECTURE.md: the tree lacks %s; say in a line what it is", pkg)
		}
	}
}

func flat(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return squeeze(string(text))
}

// squeeze makes texts comparable that are indented differently.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noSlug  = regexp.MustCompile("[^a-z0-9 _-]")
)

// TestLinks follows the links between pages. Addresses elsewhere are not asked for.
func TestLinks(t *testing.T) {
	all := pages(t)
	for page, text := range all {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			target := page
			if to != "" {
				target = filepath.Join(filepath.Dir(page), to)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			} else if anchor != "" && !hasHeading(all[target], anchor) {
				t.Errorf("%s links to %s; the page has no such heading", page, m[1])
			}
		}
	}
}

// hasHeading reports whether a page has a heading that an anchor leads to, as GitHub
// makes it.
func hasHeading(text, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		slug := noSlug.ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(slug, " ", "-") == anchor {
			return true
		}
	}
	return false
}
