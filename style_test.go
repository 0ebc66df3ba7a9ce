package sluice_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// The bars of the house, in lines. They are what the code that reads best in this
// field keeps to: its median is no shorter than others', but it has no tail.
const (
	fileMedian, fileNinetieth, fileMost = 150, 350, 500
	funcMedian, funcNinetieth, funcMost = 10, 40, 70

	// Types and functions that a package exports. Methods and the values of an
	// enumeration come with their type and are not counted.
	namesMost = 25
)

// moreNames are the packages that may export more, and why.
var moreNames = map[string]int{
	".":      45,  // the engine's whole vocabulary
	"config": 105, // every section of the file is a type
	"mcp":    32,  // the broker, its parts, and what operators are told of them
}

// A source is one parsed file that ships: no test, nothing generated.
type source struct {
	*ast.File
	fset  *token.FileSet
	name  string // relative to the module
	lines int
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// sources parses every package of the module.
func sources(t *testing.T) map[string][]source {
	t.Helper()
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string][]source{}
	for _, p := range ours(t) {
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if generated.Match(text) {
				continue
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			short, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			packages[p.path()] = append(packages[p.path()], source{file, fset, short, fset.File(file.Pos()).LineCount()})
		}
	}
	return packages
}

// span returns the lines that a node takes.
func (s source) span(n ast.Node) int {
	return s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
}

func (s source) line(n ast.Node) int { return s.fset.Position(n.Pos()).Line }

func TestFilesAndFunctionsAreShort(t *testing.T) {
	var files, funcs []int
	for _, list := range sources(t) {
		for _, s := range list {
			files = append(files, s.lines)
			if s.lines > fileMost {
				t.Errorf("%s has %d lines; more than %d are more than one idea", s.name, s.lines, fileMost)
			}
			for _, d := range s.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				n := s.span(f)
				funcs = append(funcs, n)
				if n > funcMost {
					t.Errorf("%s:%d: %s has %d lines; more than %d cannot be read at once", s.name, s.line(f), f.Name.Name, n, funcMost)
				}
			}
		}
	}
	for _, c := range []struct {
		what     string
		lines    []int
		quantile float64
		most     int
	}{
		{"the median file", files, 0.5, fileMedian},
		{"nine files in ten", files, 0.9, fileNinetieth},
		{"the median function", funcs, 0.5, funcMedian},
		{"nine functions in ten", funcs, 0.9, funcNinetieth},
	} {
		if got := quantile(c.lines, c.quantile); got > c.most {
			t.Errorf("%s: %d lines, want at most %d", c.what, got, c.most)
		}
	}
}

// quantile returns the least value that a share q of v does not exceed.
func quantile(v []int, q float64) int {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[int(q*float64(len(v)-1))]
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range ours(t) {
		if p.Doc == "" && len(p.GoFiles) > 0 {
			t.Errorf("package %s has no doc comment", p.path())
		}
	}
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	for _, list := range sources(t) {
		for _, s := range list {
			for _, name := range s.undocumented() {
				t.Errorf("%s:%d: exported %s has no doc comment", s.name, s.line(name), name.Name)
			}
		}
	}
}

// undocumented returns the exported names at the top of s that no comment explains.
// A value may be explained by the comment on its group or at its line.
func (s source) undocumented() (names []*ast.Ident) {
	for _, d := range s.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) {
				names = append(names, d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				names = append(names, undocumentedSpec(d, spec)...)
			}
		}
	}
	return names
}

func undocumentedSpec(d *ast.GenDecl, spec ast.Spec) (names []*ast.Ident) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Name.IsExported() && spec.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
			names = append(names, spec.Name)
		}
	case *ast.ValueSpec:
		if d.Doc != nil || spec.Doc != nil || spec.Comment != nil {
			return nil
		}
		for _, name := range spec.Names {
			if name.IsExported() {
				names = append(names, name)
			}
		}
	}
	return names
}

// exportedReceiver reports whether f is a function, or a method of a type that
// users of the package can name.
func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	at := f.Recv.List[0].Type
	for {
		switch x := at.(type) {
		case *ast.StarExpr:
			at = x.X
		case *ast.IndexExpr:
			at = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

func TestPackagesExportFewNames(t *testing.T) {
	for pkg, list := range sources(t) {
		most := cmp.Or(moreNames[pkg], namesMost)
		n := 0
		for _, s := range list {
			n += s.exported()
		}
		if n > most {
			t.Errorf("package %s exports %d types and functions; more than %d cannot be learned", pkg, n, most)
		}
	}
}

// exported counts the exported types and functions of s.
func (s source) exported() (n int) {
	for _, d := range s.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				n++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if ts, ok := spec.(*ast.TypeSpec); ok && ts.Name.IsExported() {
					n++
				}
			}
		}
	}
	return n
}

// TestUndocumented shows that the check above sees what it should.
func TestUndocumented(t *testing.T) {
	const text = `package p

type Bare struct{}

// Said is said.
type Said struct{}

func (Said) Bare2() {}
func (hidden) Fine() {}

type hidden struct{}

// Group.
const (
	A = 1
	B = 2
)

var (
	C = 1 // said at its line
	D = 2
)

type (
	E int
	// F is said.
	F int
)

func Bare3() {}
`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range (source{File: file, fset: fset}).undocumented() {
		got = append(got, name.Name)
	}
	if want := []string{"Bare", "Bare2", "D", "E", "Bare3"}; !slices.Equal(got, want) {
		t.Errorf("undocumented: got %v, want %v", got, want)
	}
}
