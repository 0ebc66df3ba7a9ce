package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/mcp/mcptest"
)

// A plant is a broker whose provider is a program on the SDK for TypeScript.
type plant struct {
	*broker
	dir   string
	said  *bufio.Scanner // what the program says, line by line
	serve *exec.Cmd
}

// startPlant starts a broker and a provider with one of the two WebSockets.
func startPlant(t *testing.T, socket string, more ...string) *plant {
	t.Helper()
	node := node(t)
	command, err := sluice()
	if err != nil {
		t.Fatal(err)
	}
	p := &plant{broker: &broker{command: command, address: free(t)}, dir: t.TempDir()}
	p.restart(t)
	p.said = p.provider(t, node, socket, "plant", plantSecret, more...)
	p.says(t, "connected")
	return p
}

// restart starts the broker, after the one before was killed.
func (p *plant) restart(t *testing.T) {
	t.Helper()
	if p.serve != nil {
		_ = p.serve.Process.Kill()
		_ = p.serve.Wait()
	}
	text := fmt.Sprintf(`
listen: {mcp: %q}
mcp:
  slots: [{slot: plant}]
  providers: [{id: plant, secretEnv: PLANT_SECRET, allowedResources: [/plant/**]}]
  audit: {file: audit}
auth:
  roles: {operator: {capabilities: [plant.run, mcp.tools.call]}}
  assignments: [{subject: anonymous, role: operator, resource: /plant/**}]
limits:
  storeFile: ledger
  rules:
    - {id: ops, budget: {unit: op, max: 50, windowMs: 3600000}, requireReservation: true}
    - {id: joules, budget: {unit: joule, max: 50, windowMs: 1}}
`, p.address)
	if err := os.WriteFile(filepath.Join(p.dir, "sluice.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.serve = exec.Command(p.command, "serve", "--config", "sluice.yaml")
	p.serve.Dir, p.serve.Env = p.dir, append(os.Environ(), "PLANT_SECRET="+plantSecret)
	serve(t, p.address, p.serve)
}

// provider starts the program, and returns what it says.
func (p *plant) provider(t *testing.T, node, socket, slot, secret string, more ...string) *bufio.Scanner {
	t.Helper()
	cmd := exec.Command(node, append([]string{nodeFile("mcp-provider.mjs"), socket, "ws://" + p.address, slot}, more...)...)
	cmd.Env = append(os.Environ(), "PLANT_SECRET="+secret)
	return p.listen(t, cmd)
}

// listen starts a program, and returns what it says.
func (p *plant) listen(t *testing.T, cmd *exec.Cmd) *bufio.Scanner {
	t.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return bufio.NewScanner(out)
}

// says waits for a line of the program's.
func (p *plant) says(t *testing.T, want string) {
	t.Helper()
	late := time.AfterFunc(30*time.Second, func() { t.Errorf("the provider has not said %q", want) })
	defer late.Stop()
	if !p.said.Scan() || p.said.Text() != want {
		t.Fatalf("the provider says %q, want %q", p.said.Text(), want)
	}
}

// plays has the tool play a scene, and returns what came of it.
func (p *plant) plays(t *testing.T, scene string) string {
	t.Helper()
	return p.call(t, "plant", "run", fmt.Sprintf(`{"scene":%q}`, scene))
}

// call calls a tool, and returns its text. Until the broker has the provider it asks again.
func (p *plant) call(t *testing.T, slot, tool, arguments string) string {
	t.Helper()
	for ctx := bounded(t); ; time.Sleep(20 * time.Millisecond) {
		ask := mcptest.Ask{Body: string(mcptest.CallTool("1", tool, arguments, "_meta", mcptest.Meta))}.Modern("tools/call", tool)
		r, err := ask.Send(ctx, "http://"+p.address+"/"+slot+"/mcp")
		if err != nil {
			t.Fatal(err)
		}
		f, _, err := r.Answer()
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		if f.Error != nil && strings.Contains(f.Error.Message, "is not connected") {
			continue
		}
		var result struct{ Content []struct{ Text string } }
		if err := json.Unmarshal(f.Result, &result); err != nil || len(result.Content) == 0 {
			t.Fatalf("%s %s: %s", tool, arguments, f.Raw)
		}
		return result.Content[0].Text
	}
}

// settlements are the results that the audit has, in order.
func (p *plant) settlements(t *testing.T) (list []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "audit"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var e struct {
			Action, Result string
			Used           int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Action == "settle" && e.Result != "" {
			list = append(list, fmt.Sprint(e.Result, " ", e.Used))
		}
	}
	return list
}

func TestTypeScriptProvider(t *testing.T) {
	for _, socket := range []string{"native", "ws"} {
		t.Run(socket, func(t *testing.T) { typeScriptProvider(t, startPlant(t, socket)) })
	}
}

func typeScriptProvider(t *testing.T, p *plant) {
	has := func(name, scene string, want ...string) {
		t.Run(name, func(t *testing.T) {
			got := p.plays(t, scene)
			for _, w := range want {
				if !strings.Contains(got, w) {
					t.Errorf("got %s\nwant %s", got, w)
				}
			}
		})
	}
	has("C-83 who calls", "echo", `{"value":{"ref":"cr_`, `"correlationId":"`)
	has("C-82 work runs once and is settled as a success", "success", `"ran":1`, `"quantity":3`, `"replayed":false`, `"may":true`, `"expiresInMs":`)
	has("C-82 work that fails is the error", "failure", `{"error":{"name":"Error","message":"the valve is stuck"}}`)
	has("C-82 a settlement that fails is the call's failure", "conflict", `"name":"BrokerError"`, `"reason":"settlement-conflict"`)
	has("C-82 but not if the work has failed", "failure and conflict", `"message":"the valve is stuck"`)
	has("C-82 C-68 a replayed grant is no permission", "replay", `"ran":0,"same":true,"replayed":[false,true]`, `"name":"GrantError"`, `"reason":"replayed"`)
	has("C-82 C-67a an expired grant is no permission", "expired", `"ran":0`, `"name":"GrantError"`, `"reason":"expired"`)
	has("C-27 a refusal says why and by which rule", "refused", `"reason":"quantity-exceeds-limit","ruleId":"ops"`)
	has("C-61 a reference that nobody has issued", "stolen", `"name":"BrokerError"`)
	has("4.2.9 answers to questions", "authorize", `"effect":"allow-with-constraints"`, `"constraints":{"minValue":0,"maxValue":1500}`, `"effect":"deny"`, `"reason":"undeclared-resource"`)
	has("4.2.11 a declaration that is refused says all that is wrong", "declare", `"name":"BrokerError"`, `"problems":3`)

	t.Run("M-113 C-77 a provider outlives the broker, and settles with the next", func(t *testing.T) {
		began := make(chan error, 1)
		go func() {
			ask := mcptest.Ask{Body: string(mcptest.CallTool("1", "run", `{"scene":"outlive"}`, "_meta", mcptest.Meta))}.Modern("tools/call", "run")
			r, err := ask.Send(t.Context(), "http://"+p.address+"/plant/mcp")
			if err == nil {
				r.Close() // once the broker has ended: nothing comes before
			}
			began <- err
		}()
		p.says(t, "working")
		p.restart(t)
		p.says(t, "settled")
		<-began
		if got := p.plays(t, "echo"); !strings.Contains(got, `"ref":"cr_`) {
			t.Errorf("it has not declared again: %s", got)
		}
	})
	if got, want := strings.Join(p.settlements(t), ", "), "success 3, failure 3, success 1, success 1, success 3"; got != want {
		t.Errorf("C-82 C-103 settled as %s\nwant %s", got, want)
	}
}

func TestTypeScriptProviderIsNotLetIn(t *testing.T) {
	p := startPlant(t, "ws")
	for _, socket := range []string{"native", "ws"} {
		for name, c := range map[string]struct{ slot, secret, want string }{
			"a secret that is not accepted":      {"plant", "a guess of mine, which is wrong", "does not accept the secret"},
			"a slot that another connection has": {"plant", plantSecret, "the slot is taken"},
		} {
			t.Run(socket+" "+name, func(t *testing.T) {
				said := p.provider(t, node(t), socket, c.slot, c.secret)
				if !said.Scan() || !strings.Contains(said.Text(), `"name":"FinalError"`) || !strings.Contains(said.Text(), c.want) || strings.Contains(said.Text(), c.secret) {
					t.Errorf("it says %s", said.Text())
				}
			})
		}
	}
}

// TestTypeScriptProviderOfASilentBroker stops the broker's process without ending it.
func TestTypeScriptProviderOfASilentBroker(t *testing.T) {
	for _, socket := range []string{"native", "ws"} {
		t.Run(socket, func(t *testing.T) {
			p := startPlant(t, socket, "200")
			if err := p.serve.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			p.says(t, "LostError: the connection was closed")
			if err := p.serve.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if got := p.plays(t, "echo"); !strings.Contains(got, `"ref":"cr_`) {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestTypeScriptProviderAlone has a broker that the program plays itself.
func TestTypeScriptProviderAlone(t *testing.T) {
	for scene, want := range map[string]string{
		"pauses":   "longer and longer", // M-113 after connections that do not last
		"nonsense": "alive",
		"memory":   "no more than before",
	} {
		t.Run(scene, func(t *testing.T) {
			out, err := exec.CommandContext(bounded(t), node(t), "--expose-gc", nodeFile("mcp-provider-alone.mjs"), scene).CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != want {
				t.Errorf("%s, %v; want %s", got, err, want)
			}
		})
	}
}

func TestTypeScriptCallerReference(t *testing.T) {
	index, err := filepath.Abs("../../sdk/typescript/index.mjs")
	if err != nil {
		t.Fatal(err)
	}
	for meta, want := range map[string]string{
		`{"io.cyanmycelium/caller":{"ref":"cr_1","correlationId":"c","traceId":"t"},"x":1}`: `{"ref":"cr_1","correlationId":"c","traceId":"t"}`,
		`{"io.cyanmycelium/caller":{"ref":"cr_1","correlationId":"c"}}`:                     `{"ref":"cr_1","correlationId":"c"}`,
		`{"io.cyanmycelium/caller":{"ref":"cr_1"}}`:                                         "undefined",
		`{"io.cyanmycelium/caller":{"ref":7,"correlationId":"c"}}`:                          "undefined",
		`{"io.cyanmycelium/caller":{"Ref":"cr_1","correlationId":"c"}}`:                     "undefined",
		`{"io.cyanmycelium/caller":"cr_1"}`:                                                 "undefined",
		`{"io.cyanmycelium/caller":null}`:                                                   "undefined",
		`{"caller":{"ref":"cr_1","correlationId":"c"}}`:                                     "undefined",
		"null": "undefined", "undefined": "undefined",
	} {
		script := fmt.Sprintf("import { callerReferenceOf } from %q; console.log(JSON.stringify(callerReferenceOf(%s)));", index, meta)
		out, err := exec.Command(node(t), "--input-type=module", "-e", script).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("C-83 %s: %s, %v; want %s", meta, got, err, want)
		}
	}
}

// TestTypeScriptReadme checks the program of the README with the compiler, and runs it at the
// broker of the quick start.
func TestTypeScriptReadme(t *testing.T) {
	node := node(t)
	command, err := sluice()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	readme := readFile(t, filepath.Join("..", "..", "sdk", "typescript", "README.md"))
	_, program, _ := strings.Cut(readme, "```ts\n")
	program, _, _ = strings.Cut(program, "```")
	if err := os.MkdirAll(filepath.Join(dir, "node_modules", "@sluicegate"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"@sluicegate/provider": "../../sdk/typescript", "@modelcontextprotocol": nodeFile("node_modules/@modelcontextprotocol"), "zod": nodeFile("node_modules/zod")} {
		at, err := filepath.Abs(to)
		if err == nil {
			err = os.Symlink(at, filepath.Join(dir, "node_modules", name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"discovery.ts":  program,
		"node.d.ts":     "declare const process: { env: Record<string, string | undefined> };\n", // of @types/node
		"package.json":  `{"type": "module"}`,
		"tsconfig.json": `{"compilerOptions": {"strict": true, "noEmit": true, "module": "nodenext", "target": "es2024", "skipLibCheck": true}}`,
		"sluice.yaml":   readFile(t, filepath.Join("..", "..", "examples", "broker", "quickstart.yaml")),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tsc, err := filepath.Abs(nodeFile("node_modules/typescript/bin/tsc"))
	if err != nil {
		t.Fatal(err)
	}
	check := exec.Command(node, tsc, "-p", dir)
	if out, err := check.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p := &plant{broker: &broker{command: command, address: free(t)}, dir: dir}
	environment := append(os.Environ(), "DISCOVERY_SECRET="+plantSecret, "BROKER_URL=ws://"+p.address, "PATH="+filepath.Dir(command)+":"+os.Getenv("PATH"))
	p.serve = exec.Command(command, "serve", "--config", "sluice.yaml", "--set", "listen.mcp="+p.address, "--set", "listen.admin="+free(t))
	p.serve.Dir, p.serve.Env = dir, environment
	serve(t, p.address, p.serve)
	run := exec.Command(node, "discovery.ts")
	run.Dir, run.Env = dir, environment
	p.said = p.listen(t, run)
	p.says(t, "connected")
	if got := p.call(t, "network-discovery", "ping", `{}`); !strings.HasPrefix(got, "The router is there.") {
		t.Errorf("got %s", got)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
