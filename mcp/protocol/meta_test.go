package protocol

import (
	"testing"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

func TestReserved(t *testing.T) {
	for key, want := range map[string]bool{
		MetaVersion: true, MetaCapabilities: true, MetaClientInfo: true, MetaServerInfo: true, MetaLogLevel: true,
		MetaSubscription: true, "io.modelcontextprotocol/related-task": true, MetaProgress: true, MetaCaller: true,
		"io.cyanmycelium/anything": true, "io.cyanmycelium/": true,
		// The specification's examples.
		"dev.mcp/x": true, "org.modelcontextprotocol.api/x": true, "com.mcp.tools/x": true, "com.example.mcp/x": false,
		"traceparent": false, "tracestate": false, "baggage": false,
		"mcp/x": false, "modelcontextprotocol/x": false, "mcp.example/x": false, "a.mcpx/y": false,
		"io.cyanmycelium": false, "io.cyanmycelium.other/x": false, "com.example/progressToken": false, "x": false, "": false,
	} {
		if got := Reserved(key); got != want {
			t.Errorf("M-120 %q: %v", key, got)
		}
	}
}

func TestStrip(t *testing.T) {
	const start = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`
	for _, c := range []struct {
		name, frame, want string
	}{
		{"M-120 reserved keys and ours go, others stay as they are",
			start + `{"name":"t","_meta":{ "progressToken":1,"traceparent":"00-1" , "io.cyanmycelium/caller":{"ref":"cr_1"},"com.example/n":1.0,"io.modelcontextprotocol/clientInfo":{}},"arguments":{"_meta":{"progressToken":1}}}}`,
			start + `{"name":"t","_meta":{"traceparent":"00-1","com.example/n":1.0},"arguments":{"_meta":{"progressToken":1}}}}`},
		{"M-120 however they are spelt", start + `{"_meta":{"io.cyanmycelium\/caller":1,"\u0070rogressToken":2,"io\u002emodelcontextprotocol/x":3}}}`,
			start + `{"_meta":{}}}`},
		{"of a result", `{"jsonrpc":"2.0","id":1,"result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x"},"a":1}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"_meta":{"a":1}}}`},
		{"nothing to strip", start + `{"_meta":{ "a":1 }}}`, start + `{"_meta":{ "a":1 }}}`},
		{"no object", start + `{"_meta":["progressToken"]}}`, start + `{"_meta":["progressToken"]}}`},
		{"no params", `{"jsonrpc":"2.0","method":"n"}`, `{"jsonrpc":"2.0","method":"n"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := jsonrpc.Parse([]byte(c.frame), jsonrpc.Bounds{})
			if err != nil {
				t.Fatal(err)
			}
			got := Strip(m)
			if string(got.Raw) != c.want || (got == m) != (c.frame == c.want) {
				t.Errorf("got  %s\nwant %s", got.Raw, c.want)
			}
		})
	}
	t.Run("M-120 M-028 no second key hides behind the first", func(t *testing.T) {
		for _, meta := range []string{`{"io.cyanmycelium/caller":1,"io.cyanmycelium/caller":2}`, `{"io.cyanmycelium/caller":1,"io.cyanmycelium\u002fcaller":2}`} {
			if _, err := jsonrpc.Parse([]byte(start+`{"_meta":`+meta+`}}`), jsonrpc.Bounds{}); err == nil {
				t.Errorf("%s was taken", meta)
			}
		}
		if _, err := jsonrpc.Parse([]byte(start+`{"_meta":{},"\u005fmeta":{"io.cyanmycelium/caller":1}}}`), jsonrpc.Bounds{}); err == nil {
			t.Error("a second _meta was taken")
		}
	})
}
