package estimate_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluicegate/sluice/llm/estimate"
)

// frozen is the hash of the texts that were put aside before the weights were tuned. A text
// that is to be added belongs to testdata/tuning.
const frozen = "7739cfe06411c384f4295ac0f1148802d2694a62a0fefccafa64abefbd0ed3e5"

// A piece is some lines of a text and what the real tokenizers make of them. The module in
// corpus/ writes those counts.
type piece struct {
	File   string
	Bytes  int
	O200k  float64
	CL100k float64
	text   string
}

// quoted is a piece as it stands in a request.
func (p *piece) quoted() []byte { return quoted(p.text) }

// quoted returns the inside of a JSON string.
func quoted(text string) []byte {
	var b strings.Builder
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false) // no client does
	if err := to.Encode(text); err != nil {
		panic(err) // a string can always be written
	}
	return []byte(strings.TrimSuffix(strings.TrimPrefix(b.String(), `"`), "\"\n"))
}

func corpus(t testing.TB, set string) []piece {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", set+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var pieces []piece
	if err := json.Unmarshal(raw, &pieces); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for i := range pieces {
		p := &pieces[i]
		if _, read := texts[p.File]; !read {
			text, err := os.ReadFile(filepath.Join("testdata", set, p.File))
			if err != nil {
				t.Fatal(err)
			}
			texts[p.File] = string(text)
		}
		p.text, texts[p.File] = texts[p.File][:p.Bytes], texts[p.File][p.Bytes:]
	}
	for name, rest := range texts {
		if rest != "" {
			t.Fatalf("%s: %d bytes were not counted; go run . in corpus/", name, len(rest))
		}
	}
	return pieces
}

// A method is a way to count the tokens of a text.
type method struct {
	name  string
	count func(text string) float64
}

var methods = []method{
	{"classes", func(text string) float64 {
		var c estimate.Counter
		c.Add(quoted(text))
		return float64(c.Tokens())
	}},
	{"chars/4", func(text string) float64 { return math.Ceil(float64(utf8.RuneCountInString(text)) / 4) }},
	{"bytes/4", func(text string) float64 { return math.Ceil(float64(len(text)) / 4) }},
}

// spread are the median and the 95th percentile of the sizes of errors.
func spread(errors []float64) (median, p95 float64) {
	sizes := make([]float64, len(errors))
	for i, e := range errors {
		sizes[i] = math.Abs(e)
	}
	slices.Sort(sizes)
	at := func(q float64) float64 { return sizes[min(int(math.Ceil(q*float64(len(sizes))))-1, len(sizes)-1)] }
	return at(0.5), at(0.95)
}

// TestHeldOutTextsAreFrozen fails if the texts that the weights are held to are changed.
func TestHeldOutTextsAreFrozen(t *testing.T) {
	names, err := filepath.Glob("testdata/held-out/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(h, "%s %d\n%s", filepath.Base(name), len(text), text)
	}
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != frozen {
		t.Errorf("the texts of testdata/held-out have the hash %s, not %s; new texts belong to testdata/tuning", got, frozen)
	}
}

// row prints a row of a table that README.md shows, and fails if it does not.
func row(t *testing.T, format string, args ...any) {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf(format, args...)
	t.Log(line)
	if !strings.Contains(string(readme), line+"\n") {
		t.Errorf("README.md does not show what was measured: %s", line)
	}
}

// TestErrorOnHeldOutTexts measures what README.md shows and holds it to bounds that leave room.
func TestErrorOnHeldOutTexts(t *testing.T) {
	pieces := corpus(t, "held-out")
	tokenizers := []struct {
		name  string
		count func(*piece) float64
	}{{"o200k", func(p *piece) float64 { return p.O200k }}, {"cl100k", func(p *piece) float64 { return p.CL100k }}}
	p95s := map[string]float64{}
	for _, k := range tokenizers {
		for _, m := range methods {
			var errors []float64
			for i := range pieces {
				errors = append(errors, m.count(pieces[i].text)/k.count(&pieces[i])-1)
			}
			median, p95 := spread(errors)
			row(t, "| %s | %s | %.1f %% | %.1f %% |", k.name, m.name, 100*median, 100*p95)
			p95s[k.name+" "+m.name] = p95
			if m.name == "classes" && k.name == "o200k" && (median > 0.06 || p95 > 0.16) {
				t.Errorf("the error has a median of %.3f and a 95th percentile of %.3f, want at most 0.06 and 0.16", median, p95)
			}
		}
	}
	for _, k := range tokenizers {
		for _, m := range methods[1:] {
			if p95s[k.name+" classes"] >= p95s[k.name+" "+m.name] {
				t.Errorf("%s: %s is as good as the class estimator", k.name, m.name)
			}
		}
	}
}

// TestErrorOfEachKind bounds what the estimate of a kind of text may be off by. L-128 names
// those in scripts that a rule of thumb counts wrongly.
func TestErrorOfEachKind(t *testing.T) {
	const most = 0.20
	pieces := corpus(t, "held-out")
	for len(pieces) > 0 {
		n := 1
		for n < len(pieces) && pieces[n].File == pieces[0].File {
			n++
		}
		kind := strings.TrimSuffix(pieces[0].File, ".txt")
		t.Run("L-128 "+kind, func(t *testing.T) {
			var off []float64
			for _, m := range methods {
				got, want := 0.0, 0.0
				for i := range pieces[:n] {
					got += m.count(pieces[i].text)
					want += pieces[i].O200k
				}
				off = append(off, got/want-1)
			}
			row(t, "| %s | %+.0f %% | %+.0f %% | %+.0f %% |", kind, 100*off[0], 100*off[1], 100*off[2])
			if math.Abs(off[0]) > most {
				t.Errorf("off by %+.2f, want at most %.2f", off[0], most)
			}
		})
		pieces = pieces[n:]
	}
}
