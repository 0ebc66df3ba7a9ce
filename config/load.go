package config

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
)

// Options say where a configuration comes from beside its files. The zero Options reads
// the real files and the real environment.
type Options struct {
	// Env looks up an environment variable for ${NAME}. Nil is [os.LookupEnv].
	Env func(name string) (value string, ok bool)
	// ReadFile reads configuration files and file: secrets. Nil reads the disk.
	ReadFile func(path string) ([]byte, error)
	// Set are overrides "key=value", applied after all files: the key is a dotted path
	// in any spelling, a number in it chooses an element of a list, and the value is YAML.
	Set []string
	// Strict makes every warning an error.
	Strict bool
}

//go:embed default.yaml
var defaultFile []byte

// defaultName is what positions call the embedded file.
const defaultName = "default.yaml"

// Load reads the files in order, each on top of those before it: maps are merged deep,
// everything else is replaced. Without files it reads the embedded default. All problems
// are returned, ordered by place; the Config is nil if any of them is an error.
func Load(paths []string, o Options) (*Config, Problems) {
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	if o.ReadFile == nil {
		o.ReadFile = readFile
	}
	l := loader{o: o, root: &node{kind: mapping}}
	if len(paths) == 0 {
		l.names = []string{defaultName}
		l.add(defaultName, defaultFile)
	}
	for _, path := range paths {
		l.names = append(l.names, path)
		data, err := o.ReadFile(path)
		if err != nil {
			l.report(Problem{Pos: Pos{File: path}, Code: CodeRead, Message: fmt.Sprintf("cannot read the file: %v", withoutPath(err, path))})
			continue
		}
		l.add(path, data)
	}
	l.names = append(l.names, setFile)
	for _, s := range o.Set {
		l.set(s)
	}
	return l.finish()
}

// Default returns the configuration that `sluice serve` runs without a file: the tiers of
// the ADR in front of a built-in server. It is the same as Load without files.
func Default() *Config {
	c, problems := Load(nil, Options{Env: func(string) (string, bool) { return "", false }})
	if err := problems.Err(); err != nil {
		panic("config: the embedded default is broken: " + err.Error()) // a test loads it
	}
	return c
}

// DefaultYAML returns the text of the embedded default.
func DefaultYAML() []byte { return slices.Clone(defaultFile) }

// readFile reads at most one byte more than is allowed, so that a device or a huge file
// named by mistake does not fill the memory.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxBytes+1))
}

// A loader puts files together.
type loader struct {
	o        Options
	names    []string // of files, for the order of problems
	root     *node
	problems Problems
	broken   bool // a file could not be read as YAML; what is missing is not reported
}

func (l *loader) report(p Problem) {
	if l.o.Strict && p.Warning() {
		p.Strict = true
	}
	l.problems = append(l.problems, p)
	l.broken = l.broken || p.Code == CodeRead || p.Code == CodeSyntax || p.Code == CodeTooLarge
}

func (l *loader) add(path string, data []byte) {
	n := parse(path, data, l.report)
	if n == nil {
		return
	}
	n.rehome(l.report)
	n.canon(reflect.TypeFor[Root](), fieldInfo{}, "", l.report)
	if len(l.root.fields) == 0 {
		l.root.pos = n.pos
	}
	l.root.merge(n)
}

// setFile is what positions call an override.
const setFile = "--set"

func (l *loader) set(override string) {
	key, value, ok := strings.Cut(override, "=")
	fail := func(code Code, format string, args ...any) {
		l.report(Problem{Pos: Pos{File: setFile}, Code: code, Key: key, Message: fmt.Sprintf(format, args...)})
	}
	if !ok {
		fail(CodeSyntax, "an override is key=value, such as listen.gate=127.0.0.1:8080")
		return
	}
	path, f, p := resolve(strings.Split(key, "."))
	if p != nil {
		p.Pos = Pos{File: setFile}
		l.report(*p)
		return
	}
	n := parse(setFile, []byte("value: "+value), l.report)
	if n == nil {
		return
	}
	v := n.fields[0].value
	v.loosen()
	v.canon(f.typ, f, key, l.report)
	if err := l.root.set(path, v); err != nil {
		fail(CodeReference, "%v", err)
	}
}

// loosen lets the scalars of an override be what their key needs, because a shell has
// taken the quotes away; and it gives every part the same place.
func (n *node) loosen() {
	n.pos = Pos{File: setFile}
	if n.kind == number || n.kind == boolean {
		n.kind = loose
	}
	for i := range n.fields {
		n.fields[i].pos = n.pos
		n.fields[i].value.loosen()
	}
	for _, item := range n.items {
		item.loosen()
	}
}

// finish decodes what was put together, checks it and compiles it.
func (l *loader) finish() (*Config, Problems) {
	if l.broken {
		return nil, l.problems.sorted(l.names)
	}
	c := &Config{places: places{}, hash: l.root.hash()}
	d := decoder{env: l.o.Env, read: l.o.ReadFile, places: c.places, report: l.report}
	d.structure(l.root, reflect.ValueOf(&c.Root).Elem(), "")
	decoded := l.problems.Errors()
	compile(c, l.o.Env, func(p Problem) {
		if !decoded.explain(p) {
			l.report(p)
		}
	})
	l.problems = l.problems.settled()
	l.problems.sorted(l.names)
	if l.problems.Err() != nil {
		return nil, l.problems
	}
	return c, l.problems
}

// hash returns a digest of what the files say, before secrets are filled in.
func (n *node) hash() string {
	h := sha256.New()
	n.writeTo(h)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// writeTo writes the node so that different nodes differ: each text with its length, and
// the fields in order, because the order of rules has a meaning.
func (n *node) writeTo(w io.Writer) {
	fmt.Fprintf(w, "%d %d:%s", n.kind, len(n.text), n.text)
	for _, f := range n.fields {
		fmt.Fprintf(w, "{%d:%s", len(f.name), f.name)
		f.value.writeTo(w)
	}
	for _, item := range n.items {
		fmt.Fprint(w, "[")
		item.writeTo(w)
	}
	fmt.Fprint(w, ".")
}
