package child

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluicegate/sluice/mcp/link"
)

// What of a program's standard error reaches the log: lines of up to stderrLine bytes, as
// many as stderrBurst at once and ten a second after that.
const (
	stderrLine  = 4 << 10
	stderrBurst = 50
	stderrEvery = 100 * time.Millisecond
)

// shortestSecret is the shortest text that is taken out. Shorter ones stand in every line.
const shortestSecret = 4

// logLines logs what the program writes to its standard error, until that ends. It always
// reads on, since a program that cannot write stands still.
func (c *Command) logLines(stderr io.Reader) {
	if c.Log == nil {
		_, _ = io.Copy(io.Discard, stderr)
		return
	}
	secrets := c.secrets()
	log := c.Log.With("program", c.String())
	may := rate.NewLimiter(rate.Every(stderrEvery), stderrBurst)
	for lines, dropped := link.NewLines(stderr, stderrLine), 0; ; {
		line, err := lines.Next()
		text := string(line)
		if _, long := errors.AsType[*link.TooLong](err); long {
			text = "(a line of more than 4 KiB)" // of a part nobody can say that it has no part of a secret
		} else if err != nil {
			return
		}
		if !may.Allow() {
			dropped++
			continue
		}
		log.Info("mcp: a provider writes to its standard error", "text", secrets.Replace(text), "dropped", dropped)
		dropped = 0
	}
}

// secrets replaces what must not be logged: each value of the environment by its name.
func (c *Command) secrets() *strings.Replacer {
	type pair struct{ text, by string }
	var pairs []pair
	add := func(value, by string) {
		for line := range strings.FieldsFuncSeq(value, func(c rune) bool { return c == '\n' || c == '\r' }) {
			if line = strings.TrimSpace(line); len(line) >= shortestSecret {
				pairs = append(pairs, pair{line, by})
			}
		}
	}
	for name, value := range c.Env {
		add(value, "$"+name)
	}
	for _, value := range c.Secrets {
		add(value, "$SECRET")
	}
	// Of two that begin at the same place the replacer takes the first.
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.text, b.text))
	})
	var flat []string
	for _, p := range pairs {
		flat = append(flat, p.text, p.by)
	}
	return strings.NewReplacer(flat...)
}
