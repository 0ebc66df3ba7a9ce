package config

import (
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// The comments of the section structs are what people read about a key, in the code, in
// their editor by way of [Schema], and in the guide by way of [Reference].
//
//go:embed section_*.go
var sections embed.FS

// comments returns the comment of each struct, by its name, and of each field, by
// "Struct.Field", on one line.
func comments() map[string]string {
	docs := map[string]string{}
	files, _ := sections.ReadDir(".") // embedded: it cannot fail
	for _, f := range files {
		src, _ := sections.ReadFile(f.Name())
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), src, parser.ParseComments)
		if err != nil {
			panic(fmt.Sprintf("config: %s is embedded and no Go file: %v", f.Name(), err)) // it was compiled
		}
		for _, decl := range file.Decls {
			if types, ok := decl.(*ast.GenDecl); ok && types.Tok == token.TYPE {
				addComments(docs, types)
			}
		}
	}
	return docs
}

func addComments(docs map[string]string, decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		typ := spec.(*ast.TypeSpec)
		docs[typ.Name.Name] = oneLine(decl.Doc.Text())
		str, ok := typ.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range str.Fields.List {
			for _, name := range f.Names {
				docs[typ.Name.Name+"."+name.Name] = oneLine(f.Doc.Text())
			}
		}
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
