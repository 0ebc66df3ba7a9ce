package mcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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

// suite runs the conformance suite against a server.
func suite(t *testing.T, url, version string) outcomes {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(bounded(t), node(t), nodeFile("node_modules/.bin/conformance"), "server", "--url", url, "--requirements", version, "-o", dir)
	said, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	found, err := read(dir)
	if err != nil || len(found) == 0 {
		t.Fatalf("%d scenarios, %v:\n%s", len(found), err, said)
	}
	return found
}

// read reads what the suite has left: a folder for each scenario, named server-SCENARIO-TIME.
func read(dir string) (outcomes, error) {
	files, err := filepath.Glob(filepath.Join(dir, "server-*", "checks.json"))
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
			found[name] = append(found[name], c.ID+": "+c.Status)
		}
		slices.Sort(found[name])
	}
	return found, nil
}

// reference starts go-sdk's reference server and returns its address.
func reference(t *testing.T, stateless string) string {
	t.Helper()
	path, err := exec.Command("go", "tool", "-n", "everything-server").Output()
	if err != nil {
		t.Fatal(err)
	}
	address := free(t)
	serve(t, address, exec.Command(strings.TrimSpace(string(path)), "-http", address, stateless))
	return "http://" + address + "/mcp"
}

// TestConformance runs the suite against the reference server alone.
func TestConformance(t *testing.T) {
	node(t)
	for _, era := range eras {
		t.Run(era.version, func(t *testing.T) {
			alone := suite(t, reference(t, era.stateless), era.version)
			if n := alone.count("SUCCESS"); n < era.passed {
				t.Errorf("the server alone passes %d checks, want %d", n, era.passed)
			}
		})
	}
}

// TestRead shows what is read of a run.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "server-one-two-2026-11-30T03-17-01-210Z")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "checks.json"), []byte(`[{"id":"z","status":"FAILURE"},{"id":"a","status":"SUCCESS"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := read(dir)
	if err != nil || !slices.Equal(found["one-two"], []string{"a: SUCCESS", "z: FAILURE"}) || found.count("SUCCESS") != 1 {
		t.Errorf("%v %v", found, err)
	}
}
