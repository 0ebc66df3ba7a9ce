package mcptest

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// behaviours are what the package comment says. An error means that the peer cannot be
// reached; the call has ended then.
var behaviours = map[string]func(*Call) error{
	"echo": echo, "hold": hold, "release": release, "wait": wait, "silent": silent, "progress": progress, "late": late, "big": big,
	"raw": raw, "error": failing, "fail": failed, "ask": ask, "change": change, "task": startTask, "input": input, "die": die,
}

// echo gives the arguments back: as text with the bytes they had, and as structured content,
// which differs in spaces alone.
func echo(c *Call) error {
	answer := c.text(string(c.raw))
	if len(c.raw) > 0 {
		answer["structuredContent"] = c.raw
	}
	return c.Result(answer)
}

func hold(c *Call) error {
	if frames := c.steps(); frames != nil {
		if err := c.out.Send(frames...); err != nil {
			return err
		}
	}
	c.p.mu.Lock()
	c.p.held[c.args.Key] = append(c.p.held[c.args.Key], c)
	c.p.changed()
	c.p.mu.Unlock()
	select {
	case <-c.release:
		return c.Text("released")
	case <-c.gone():
		c.p.mu.Lock()
		c.p.held[c.args.Key] = slices.DeleteFunc(c.p.held[c.args.Key], func(other *Call) bool { return other == c })
		c.p.mu.Unlock()
		return c.stop()
	case <-c.p.closed:
		c.end()
	case <-c.done: // the test has answered
	}
	return nil
}

func release(c *Call) error { return c.Text(strconv.Itoa(c.p.Finish(c.args.Key))) }

func wait(c *Call) error {
	t := time.NewTimer(time.Duration(c.args.MS) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return c.Text("waited")
	case <-c.gone():
		return c.stop()
	case <-c.p.closed:
		c.end()
		return nil
	}
}

// silent leaves the call under way until the provider is closed, whoever cancels it.
func silent(c *Call) error {
	<-c.p.closed
	c.end()
	return nil
}

func progress(c *Call) error {
	frames := c.steps()
	defer c.end()
	return c.out.Send(append(frames, c.result(c.text("done")))...)
}

func late(c *Call) error {
	defer c.end()
	return c.out.Send(append([][]byte{c.result(c.text("done"))}, c.steps()...)...)
}

// steps are progress 1 to n.
func (c *Call) steps() [][]byte {
	var frames [][]byte
	for i := 1; c.token != nil && i <= c.args.N; i++ {
		frames = append(frames, c.progress(float64(i), c.args.Message))
	}
	return frames
}

func big(c *Call) error { return c.Text(strings.Repeat("x", c.args.Bytes)) }

func raw(c *Call) error {
	defer c.end()
	return c.Send(c.args.Frames...)
}

func failing(c *Call) error {
	return c.Fail(&Error{Code: c.args.Code, Message: c.args.Message, Data: c.args.Data})
}

func failed(c *Call) error {
	answer := c.text("the tool has failed")
	answer["isError"] = true
	return c.Result(answer)
}

// ask asks the client and answers with what came back.
func ask(c *Call) error {
	answer, err := c.line.request(c.out, c.args.Method, c.args.Params, c.gone())
	if err != nil {
		return err
	}
	said := c.text(string(answer.Raw))
	said["structuredContent"] = json.RawMessage(answer.Raw)
	return c.Result(said)
}

func change(c *Call) error {
	c.p.mu.Lock()
	tools := slices.DeleteFunc(slices.Clone(c.p.tools), func(t Tool) bool { return slices.Contains(c.args.Remove, t.Name) })
	c.p.mu.Unlock()
	for _, name := range c.args.Add {
		tools = append(tools, Tool{Name: name})
	}
	c.p.SetTools(tools...)
	return c.Text("changed")
}

func input(c *Call) error {
	if c.responses != nil && c.args.Key != "" {
		return hold(c)
	}
	if c.responses != nil {
		return c.Text(string(c.responses))
	}
	return c.Result(map[string]any{"resultType": "input_required", "requestState": "state of " + string(c.ID),
		"inputRequests": map[string]any{"name": map[string]any{"method": "elicitation/create",
			"params": map[string]any{"mode": "form", "message": "Who?", "requestedSchema": map[string]any{"type": "object",
				"properties": map[string]any{"name": map[string]any{"type": "string"}}}}}}})
}

func die(c *Call) error {
	if c.p.exit != nil {
		c.p.exit(int(c.args.Code))
	}
	defer c.end()
	return c.line.close(c.out)
}
