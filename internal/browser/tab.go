package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// A Tab is a page in a real browser, driven by the DevTools protocol. It is for one goroutine.
type Tab struct {
	t    *testing.T
	conn *websocket.Conn
	id   int
}

var debugPort = regexp.MustCompile(`ws://(127\.0\.0\.1:\d+)/`)

// Open opens url in a browser that ends with the test.
func Open(t *testing.T, url string) *Tab {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path(t), append(quiet(t), "--remote-debugging-port=0", url)...)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	var address string
	for lines := bufio.NewScanner(log); address == "" && lines.Scan(); {
		if m := debugPort.FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
		}
	}
	go io.Copy(io.Discard, log) // or the browser would wait for a reader
	conn, _, err := websocket.Dial(t.Context(), debugURL(t, address), nil)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(1 << 24)
	t.Cleanup(func() { conn.CloseNow() })
	return &Tab{t: t, conn: conn}
}

// debugURL asks the browser for the address of its page.
func debugURL(t *testing.T, address string) string {
	t.Helper()
	resp, err := http.Get("http://" + address + "/json/list")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var targets []struct {
		Type string `json:"type"`
		URL  string `json:"webSocketDebuggerUrl"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&targets); err != nil {
		t.Fatal(err)
	}
	for _, target := range targets {
		if target.Type == "page" {
			return target.URL
		}
	}
	t.Fatal("the browser has no page")
	return ""
}

// Eval runs an expression in the page and returns its value as text. The content policy
// holds for the page, not for DevTools.
func (b *Tab) Eval(expression string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
	defer cancel()
	b.id++
	request := map[string]any{"id": b.id, "method": "Runtime.evaluate", "params": map[string]any{
		"expression": "String(" + expression + ")", "userGesture": true,
	}}
	if err := wsjson.Write(ctx, b.conn, request); err != nil {
		b.t.Fatal(err)
	}
	for {
		var answer struct {
			ID     int `json:"id"`
			Result struct {
				Result           struct{ Value string }
				ExceptionDetails *struct{ Exception struct{ Description string } }
			}
		}
		if err := wsjson.Read(ctx, b.conn, &answer); err != nil {
			b.t.Fatal(err)
		}
		if answer.ID != b.id {
			continue // an event
		}
		if e := answer.Result.ExceptionDetails; e != nil {
			return "threw " + e.Exception.Description
		}
		return answer.Result.Result.Value
	}
}

// Until waits for the expression to have a value that contains want.
func (b *Tab) Until(want, expression string) {
	b.t.Helper()
	var got string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if got = b.Eval(expression); strings.Contains(got, want) {
			return
		}
	}
	b.t.Errorf("%s is %q, want %q", expression, got, want)
}

// Press sends a key to the element that a selector finds.
func (b *Tab) Press(selector, key string) {
	b.t.Helper()
	b.Eval(fmt.Sprintf("document.querySelector(%q).focus(), document.querySelector(%[1]q).dispatchEvent(new KeyboardEvent('keydown', {key: %q, bubbles: true}))", selector, key))
}

// Click presses the element that a selector finds, once it is there.
func (b *Tab) Click(selector string) {
	b.t.Helper()
	b.Until("true", fmt.Sprintf("document.querySelector(%q) !== null", selector))
	b.Eval(fmt.Sprintf("document.querySelector(%q).focus(), document.querySelector(%[1]q).click()", selector))
}
