package mcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// eras are the versions of the protocol whose requirements the suite knows, and how go-sdk's
// reference server is started for each: it is for one of the two eras at a time.
var eras = []struct {
	version, stateless string
	passed             int // checks, at least, without a broker
}{
	{"2025-11-25", "-stateless=false", 82},
	{"2026-07-28", "-stateless=true", 165},
}

// outcomes say how the checks of a run went: by scenario, "check: STATUS".
type outcomes map[string][]string

// count returns how many checks went so.
func (o outcomes) count(status string) (n int) {
	for _, checks := range o {
		for _, c := range checks {
			if strings.HasSuffix(c, ": "+status) {
				n++
			}
		}
	}
	return n
}

// conformance is the suite's command with a folder of its own.
func conformance(t *testing.T, words ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(bounded(t), node(t), append([]string{nodeFile("node_modules/.bin/conformance")}, words...)...)
	cmd.WaitDelay = time.Second
	return cmd
}

// run runs the suite and returns what it has found. It leaves a folder for each scenario, named
// after it and the time.
func run(t *testing.T, cmd *exec.Cmd, folders string) outcomes {
	t.Helper()
	dir := t.TempDir()
	cmd.Args = append(cmd.Args, "-o", dir)
	said, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	found, err := read(filepath.Join(dir, folders, "checks.json"))
	if err != nil || len(found) == 0 {
		t.Fatalf("%d scenarios, %v:\n%s", len(found), err, said)
	}
	return found
}

// suite runs all scenarios against a server.
func suite(t *testing.T, url, version string) outcomes {
	t.Helper()
	return run(t, conformance(t, "server", "--url", url, "--requirements", version), "server-*")
}

// read reads the files that the suite has left.
func read(pattern string) (outcomes, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	found := outcomes{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var checks []struct{ ID, Status string }
		if err := json.Unmarshal(text, &checks); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		name := filepath.Base(filepath.Dir(file))
		name = strings.TrimPrefix(name[:len(name)-len("-2006-01-02T15-04-05-000Z")], "server-")
		found[name] = []string{} // one without checks is there too
		for _, c := range checks {
			// What the suite sent and got is between the checks, in numbers that vary.
			if !strings.HasPrefix(c.ID, "incoming-") && !strings.HasPrefix(c.ID, "outgoing-") {
				found[name] = append(found[name], c.ID+": "+c.Status)
			}
		}
		slices.Sort(found[name])
	}
	return found, nil
}

// reference starts go-sdk's reference server and returns its address.
func reference(t *testing.T, stateless string) string {
	t.Helper()
	address := free(t)
	serve(t, address, exec.Command(tool(t, "everything-server"), "-http", address, stateless))
	return "http://" + address + "/mcp"
}

// tool builds one of the commands that go.mod names.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.Command("go", "tool", "-n", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(path))
}

// TestConformance runs the suite against the reference server alone, and through the broker: what
// it finds has to be the same, but for what testdata/differences.txt names.
func TestConformance(t *testing.T) {
	node(t)
	for _, era := range eras {
		t.Run(era.version, func(t *testing.T) {
			t.Parallel()
			url := reference(t, era.stateless)
			alone := suite(t, url, era.version)
			if n := alone.count("SUCCESS"); n < era.passed {
				t.Errorf("the server alone passes %d checks, want %d", n, era.passed)
			}
			for name, limits := range map[string]string{"limits off": "", "generous limits": generous} {
				t.Run(name, func(t *testing.T) {
					b := startBroker(t, limits, fmt.Sprintf("{slot: everything, url: %q}", url))
					compare(t, era.version, alone, suite(t, b.slot("everything").http, era.version))
				})
			}
		})
	}
}

// generous are limits that every call is counted by and none meets.
const generous = `
limits:
  rules:
    - {id: all, rate: {max: 100000, windowMs: 1000}, concurrency: 1000}
    - {id: each, groupBy: [subject, provider, capability], calls: {max: 100000, windowMs: 60000}}`

// compare tells where two runs of the same scenarios differ, less the differences that are known.
func compare(t *testing.T, version string, alone, through outcomes) {
	t.Helper()
	known, used := differences(t, version), map[string]bool{}
	for _, scenario := range slices.Sorted(maps.Keys(alone)) {
		one, other := alone[scenario], through[scenario]
		if slices.Equal(one, other) {
			continue
		}
		for _, check := range less(one, other) {
			key := scenario + " | " + check + " | alone"
			if used[key] = true; known[key] == "" {
				t.Errorf("%s: %s, but not through the broker", scenario, check)
			}
		}
		for _, check := range less(other, one) {
			key := scenario + " | " + check + " | broker"
			if used[key] = true; known[key] == "" {
				t.Errorf("%s: %s, but only through the broker", scenario, check)
			}
		}
	}
	for key := range known {
		if scenario, _, _ := strings.Cut(key, " | "); alone[scenario] != nil && !used[key] {
			t.Errorf("testdata/differences.txt names a difference that is none: %s", key)
		}
	}
}

// less returns what is in a and not in b, each as often as it is missing.
func less(a, b []string) (left []string) {
	b = slices.Clone(b)
	for _, s := range a {
		if i := slices.Index(b, s); i >= 0 {
			b = slices.Delete(b, i, i+1)
		} else {
			left = append(left, s)
		}
	}
	return left
}

// differences reads those that are known for a version: scenario, check and where it went so, and
// the reason.
func differences(t *testing.T, version string) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), " | ")
		if strings.HasPrefix(line, "#") || fields[0] == "" {
			continue
		}
		if len(fields) != 5 {
			t.Fatalf("testdata/differences.txt: %d fields in %q", len(fields), line)
		}
		if fields[0] == version {
			known[strings.Join(fields[1:4], " | ")] = fields[4]
		}
	}
	return known
}

// TestCompare shows that a difference is seen.
func TestCompare(t *testing.T) {
	if got := less([]string{"a", "b", "b"}, []string{"b", "c"}); !slices.Equal(got, []string{"a", "b"}) {
		t.Error(got)
	}
	dir := t.TempDir()
	folder := filepath.Join(dir, "server-one-two-2026-11-30T03-17-01-210Z")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "checks.json"), []byte(`[{"id":"z","status":"FAILURE"},{"id":"incoming-request","status":"INFO"},{"id":"a","status":"SUCCESS"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := read(filepath.Join(dir, "*", "checks.json"))
	if err != nil || !slices.Equal(found["one-two"], []string{"a: SUCCESS", "z: FAILURE"}) || found.count("SUCCESS") != 1 {
		t.Errorf("%v %v", found, err)
	}
}
