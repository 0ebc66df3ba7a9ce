package sluice_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sluicegate/sluice"

// A ban is an import that a package may not have, and why. Paths of ours are
// relative to the module, "." is the root, and "x/..." is x and all below it.
type ban struct{ path, why string }

// others stands for every module but ours.
const others = "other modules"

// surfaces are the protocols in front of admission.
var surfaces = []string{"gate/...", "llm/...", "mcp/...", "admin/..."}

var (
	noOthers  = ban{others, "the core is embedded: who imports it compiles the standard library and nothing else"}
	noStores  = ban{"store/...", "a store is handed in; nobody but cmd/sluice chooses one"}
	noLedger  = ban{"ledger/...", "the books are between the engine and a store; a surface sees admissions and refusals"}
	noConfig  = ban{"config/...", "policy arrives as a value, so that it can come from a test or a program as well as from a file"}
	noEngine  = ban{".", "what lies under the engine is read, tested and replaced without it"}
	noClock   = ban{"context", "time is an argument and nothing waits: the arithmetic must give the same answer in a replay and in a Redis script"}
	noLock    = ban{"sync/...", "who shares a cell serialises the calls; a lock here would be taken twice"}
	noBroker  = ban{"mcp", "what the broker is made of is read and tested without it"}
	noNetwork = ban{"net/...", "protocols belong to surfaces"}
)

// rules is the right-hand column of the tree in ARCHITECTURE.md. A row holds for its
// package and for all below it that have none of their own. Every package has a row
// and every row a package. Test files are free.
var rules = map[string][]ban{
	".": surfaceBans(noOthers, noStores, noConfig, noNetwork,
		ban{"wire/...", "what a refusal looks like to a client is a surface's business"},
		ban{"encoding/json", "calls, rules and refusals are values; their spelling is config's and wire's"}),
	"limit": {noOthers, noEngine, noClock, noLock, noNetwork, noStores, noLedger,
		{"internal/...", "the algorithms stand alone"},
		{"os/...", "no input, no output"}},
	"ledger": {noOthers, noEngine, noClock, noLock, noNetwork, noStores,
		{"internal/...", "commands and their evaluation need limit alone"},
		{"os/...", "no input, no output: a store keeps the books"}},
	"internal/line": {noOthers, noEngine, noStores, noNetwork, noLedger,
		{"limit/...", "a line knows who waits, not for what"}},
	"internal/resource": surfaceBans(noOthers, noEngine, noStores, noLedger, noConfig, noNetwork,
		ban{"internal/...", "a name is read by the engine and by the broker alike, and knows neither"}),
	"internal/route":            surfaceBans(noEngine, noStores, noLedger, noConfig),
	"internal/clientip":         surfaceBans(noEngine, noStores, noLedger, noConfig),
	"store/memory":              surfaceBans(noOthers, noEngine, noConfig, noNetwork, ban{"store/storetest/...", "the contract is for tests"}),
	"store/file":                surfaceBans(noEngine, noConfig, noNetwork, ban{"store/storetest/...", "the contract is for tests"}),
	"store/redis":               surfaceBans(noEngine, noConfig, ban{"store/storetest/...", "the contract is for tests"}),
	"store/hazelcast":           surfaceBans(noEngine, noConfig, ban{"store/storetest/...", "the contract is for tests"}),
	"store/lease":               surfaceBans(noOthers, noEngine, noConfig, noNetwork, ban{"store/...", "it stands around any store and knows none"}),
	"store/storetest":           surfaceBans(noConfig, ban{"store/memory/...", "the contract knows no store, or it would describe that one"}),
	"config":                    surfaceBans(noStores, noLedger, ban{"net/http", "configuration is read before anything serves"}),
	"wire":                      surfaceBans(noStores, noLedger, noConfig),
	"gate":                      otherSurfaces("gate/...", noStores, noLedger, noConfig),
	"admin":                     otherSurfaces("admin/...", noStores, noLedger),
	"cmd/sluice":                {{"store/storetest/...", "the contract is for tests"}},
	"sim":                       {{"cmd/...", "the simulation drives the library, not the command"}},
	"deploy":                    {noEngine},
	"docs":                      {noEngine},
	"examples/broker/discovery": otherSurfaces("mcp/...", noEngine, noBroker, noStores, noLedger, noConfig, ban{"internal/...", "people copy it into modules of their own"}),
	"llm":                       otherSurfaces("llm/...", noStores, noLedger, noConfig),
	"llm/dialect":               surfaceBans(noEngine, noStores, noLedger, noConfig, noClock),
	"llm/translate":             otherSurfaces("llm/...", noEngine, noStores, noLedger, noConfig, noClock),
	"llm/llmtest":               otherSurfaces("llm/...", noEngine, noStores, noLedger, noConfig),
	"llm/estimate":              otherSurfaces("llm/...", noEngine, noStores, noLedger, noConfig, noNetwork),
	"mcp":                       otherSurfaces("mcp/...", noStores, noLedger, noConfig),
	"mcp/audit":                 otherSurfaces("mcp/...", noEngine, noBroker, noStores, noLedger, noConfig, noNetwork),
	"mcp/jsonrpc":               otherSurfaces("mcp/...", noOthers, noEngine, noBroker, noStores, noLedger, noConfig, noNetwork, ban{"wire/...", "frames know nothing of admission"}),
	"mcp/mcptest":               otherSurfaces("mcp/...", noEngine, noBroker, noStores, noLedger, noConfig, ban{"mcp/jsonrpc/...", "the other side of a test reads frames by itself, so that no mistake agrees with itself"}),
	"mcp/protocol":              otherSurfaces("mcp/...", noOthers, noEngine, noBroker, noStores, noLedger, noConfig),
	"mcp/policy":                otherSurfaces("mcp/...", noOthers, noEngine, noBroker, noStores, noLedger, noConfig, noNetwork),
	"mcp/schema":                otherSurfaces("mcp/...", noEngine, noBroker, noStores, noLedger, noConfig, noNetwork),
	"mcp/cache":                 otherSurfaces("mcp/...", noEngine, noBroker, noStores, noLedger, noConfig, noNetwork),
	"mcp/front":                 otherSurfaces("mcp/...", noEngine, noStores, noLedger, noConfig),
	"mcp/stdio":                 otherSurfaces("mcp/...", noEngine, noBroker, noStores, noLedger, noConfig),
	"mcp/provider":              otherSurfaces("mcp/...", noEngine, noBroker, noStores, noLedger, noConfig, ban{"mcp/link/...", "who provides tools is the other end, and compiles nothing of the broker's"}, ban{"mcp/policy/...", "the same"}),
	"mcp/link":                  otherSurfaces("mcp/...", noEngine, noBroker, noStores, noLedger, noConfig),
	"mcp/link/linktest":         otherSurfaces("mcp/...", noEngine, noBroker, noStores, noLedger, noConfig),
	"identity":                  surfaceBans(noEngine, noStores, noLedger, noConfig),
	"internal/breaker":          surfaceBans(noEngine, noOthers, noStores, noLedger, noConfig, noNetwork),
	"internal/knock":            surfaceBans(noOthers, noStores, noLedger, noConfig, noNetwork),
	"internal/lately":           surfaceBans(noEngine, noOthers, noStores, noLedger, noConfig, noNetwork),
	"upstream":                  surfaceBans(noEngine, noStores, noLedger, noConfig),
	"internal/testcount":        {noEngine, noOthers},
	"internal/services":         {noEngine, noConfig},
	"internal/browser":          surfaceBans(noEngine, noStores, noLedger, noConfig),
}

// core is what a program gets that embeds sluice over the memory store.
var core = []string{".", "limit", "ledger", "internal/line", "internal/resource", "store/memory"}

// surfaceBans adds all surfaces: the library never knows what stands in front of it.
func surfaceBans(bans ...ban) []ban { return otherSurfaces("", bans...) }

// otherSurfaces adds every surface but own.
func otherSurfaces(own string, bans ...ban) []ban {
	for _, s := range surfaces {
		if s != own {
			bans = append(bans, ban{s, "a surface reads alone and can be left out"})
		}
	}
	return bans
}

// A listed is a package as "go list -json" describes it.
type listed struct {
	ImportPath string
	Dir        string
	Doc        string
	Standard   bool
	GoFiles    []string
	Imports    []string
	Deps       []string
	Module     *struct{ Path string }
}

// path is the package's path in the module, "." for its root, or the full path of
// a package that is not ours.
func (p listed) path() string { return inModule(p.ImportPath) }

func inModule(imported string) string {
	if imported == module {
		return "."
	}
	return strings.TrimPrefix(imported, module+"/")
}

// goList asks the go command about packages, so that build constraints and modules
// are seen as the compiler sees them.
func goList(t *testing.T, args ...string) map[string]listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Doc,Standard,GoFiles,Imports,Deps,Module"}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %s", exit.Stderr)
		}
		t.Fatal(err)
	}
	packages := map[string]listed{}
	for in := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := in.Decode(&p); err == io.EOF {
			return packages
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages[p.ImportPath] = p
	}
}

// ours lists the packages of the module.
func ours(t *testing.T) map[string]listed { return goList(t, "./...") }

func TestEveryPackageHasItsRule(t *testing.T) {
	packages := ours(t)
	for _, p := range packages {
		if _, ok := rowOf(p.path()); !ok {
			t.Errorf("package %s has no row in the import rules: say what it must not know, and why", p.path())
		}
	}
	for row := range rules {
		if _, ok := packages[fullPath(row)]; !ok {
			t.Errorf("the import rules name %s, which is gone: take its row out", row)
		}
	}
}

func TestImports(t *testing.T) {
	packages := goList(t, "-deps", "./...")
	for _, p := range ours(t) {
		row, _ := rowOf(p.path())
		for _, imported := range p.Imports {
			for _, b := range rules[row] {
				if b.covers(imported, packages[imported].Standard) {
					t.Errorf("%s imports %s, which it must not know (%s): %s", p.path(), inModule(imported), b.path, b.why)
				}
			}
		}
	}
}

// rowOf returns the row that holds for a package: its own or the nearest above it.
// The root's row is the root's alone.
func rowOf(pkg string) (row string, ok bool) {
	for row = pkg; ; row = path.Dir(row) {
		if _, ok := rules[row]; ok {
			return row, row != "." || pkg == "."
		}
		if row == "." {
			return "", false
		}
	}
}

func fullPath(pkg string) string {
	if pkg == "." {
		return module
	}
	return module + "/" + pkg
}

// covers reports whether importing a path breaks b.
func (b ban) covers(imported string, standard bool) bool {
	isOurs := imported == module || strings.HasPrefix(imported, module+"/")
	if b.path == others {
		return !isOurs && !standard
	}
	pkg := inModule(imported)
	if top, ok := strings.CutSuffix(b.path, "/..."); ok {
		return pkg == top || strings.HasPrefix(pkg, top+"/")
	}
	return pkg == b.path
}

func TestCoreReachesTheStandardLibraryAlone(t *testing.T) {
	packages := goList(t, "-deps", "./...")
	for _, pkg := range core {
		for _, dep := range packages[fullPath(pkg)].Deps {
			if p := packages[dep]; !p.Standard && !slices.Contains(core, p.path()) {
				t.Errorf("%s reaches %s: who embeds sluice would compile it too", pkg, p.path())
			}
			if dep == "net/http" {
				t.Errorf("%s reaches net/http, which no embedded limiter needs", pkg)
			}
		}
	}
}

// TestBans shows that a ban catches what it names, and nothing else.
func TestBans(t *testing.T) {
	for _, c := range []struct {
		ban      string
		imported string
		standard bool
		want     bool
	}{
		{others, "github.com/coder/websocket", false, true},
		{others, module + "/limit", false, false},
		{others, "net/http", true, false},
		{"store/...", module + "/store/memory", false, true},
		{"store/...", module + "/storefront", false, false},
		{".", module, false, true},
		{".", module + "/limit", false, false},
		{"net/...", "net/http", true, true},
		{"net/...", "net", true, true},
		{"net/http", "net/netip", true, false},
	} {
		if got := (ban{path: c.ban}).covers(c.imported, c.standard); got != c.want {
			t.Errorf("ban %q on %s: got %v, want %v", c.ban, c.imported, got, c.want)
		}
	}
}

func TestRowOf(t *testing.T) {
	for _, c := range []struct {
		pkg, row string
		ok       bool
	}{
		{".", ".", true},
		{"limit", "limit", true},
		{"gate/identity", "gate", true},
		{"internal/unheard", "", false},
		{"unheard", "", false},
	} {
		if row, ok := rowOf(c.pkg); ok != c.ok || ok && row != c.row {
			t.Errorf("rowOf(%q): got %q, %v; want %q, %v", c.pkg, row, ok, c.row, c.ok)
		}
	}
}
