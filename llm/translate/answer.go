package translate

import (
	"bytes"
	"strconv"

	"github.com/sluicegate/sluice/llm/dialect"
)

// A reason is why an answer ended.
type reason uint8

const (
	untold  reason = iota
	ended          // the model had done, or came to a stop sequence
	length         // the bound of the output
	called         // tools are to be called
	refused        // the model or a filter refused
)

// A listener writes an answer in one dialect while it is read in another. All values are
// JSON strings, with their quotes.
type listener interface {
	// start comes first.
	start(id, model []byte)
	// text is more of what is said.
	text(s []byte)
	// call begins the call of a tool, arguments is more of those of the last call.
	call(id, name []byte)
	arguments(s []byte)
	// end comes last. It is an error if what was said makes no answer.
	end(r reason, u *dialect.Usage) error
}

// A chatAnswer writes an answer of OpenAI's chat in one piece.
type chatAnswer struct {
	writer
	created   int64
	id, model []byte
	said      []byte // the inside of a string
	calls     writer
}

func (a *chatAnswer) start(id, model []byte) { a.id, a.model = id, model }

func (a *chatAnswer) text(s []byte) { a.said = append(a.said, inside(s)...) }

func (a *chatAnswer) call(id, name []byte) {
	if a.calls.b != nil {
		a.calls.shut(`"}}`)
	}
	a.calls.open("{")
	a.calls.member("id", id)
	a.calls.open(`"type":"function","function":{`)
	a.calls.member("name", name)
	a.calls.open(`"arguments":"`)
}

func (a *chatAnswer) arguments(s []byte) { a.calls.b = append(a.calls.b, inside(s)...) }

func (a *chatAnswer) end(r reason, u *dialect.Usage) error {
	a.open("{")
	a.member("id", a.id)
	a.word("object", "chat.completion")
	a.member("created", strconv.AppendInt(nil, a.created, 10))
	a.member("model", a.model)
	a.open(`"choices":[{"index":0,"message":{"role":"assistant","content":`)
	if a.said == nil {
		a.value([]byte("null"))
	} else {
		a.b = append(append(append(a.b, '"'), a.said...), '"')
	}
	a.member("refusal", []byte("null"))
	if a.calls.b != nil {
		a.calls.shut(`"}}`)
		a.name("tool_calls")
		a.open("[")
		a.value(a.calls.b)
		a.shut("]")
	}
	a.shut("}")
	a.member("logprobs", []byte("null"))
	a.word("finish_reason", chatReasons[r])
	a.shut("}]")
	if u.HasInput || u.HasOutput {
		a.name("usage")
		a.value(chatUsage(u))
	}
	a.shut("}")
	return nil
}

// chatReasons are the reasons as OpenAI names them.
var chatReasons = [...]string{ended: "stop", length: "length", called: "tool_calls", refused: "content_filter"}

// chatUsage is usage as OpenAI has it: all that was read is the prompt.
func chatUsage(u *dialect.Usage) []byte {
	w := &writer{}
	number := func(name string, n int64) { w.member(name, strconv.AppendInt(nil, n, 10)) }
	w.open("{")
	number("prompt_tokens", u.Prompt())
	number("completion_tokens", u.Output)
	number("total_tokens", u.Prompt()+u.Output)
	w.name("prompt_tokens_details")
	w.open("{")
	number("cached_tokens", u.CacheRead)
	if u.CacheWrite > 0 {
		number("cache_write_tokens", u.CacheWrite)
	}
	w.shut("}}")
	return w.b
}

// A messageAnswer writes an answer of Anthropic's messages in one piece.
type messageAnswer struct {
	writer
	id, model []byte
	blocks    []block
}

// A block is a text, as the inside of a string, or a call.
type block struct{ id, name, said []byte }

func (a *messageAnswer) start(id, model []byte) { a.id, a.model = id, model }

func (a *messageAnswer) text(s []byte) {
	if n := len(a.blocks); n == 0 || a.blocks[n-1].id != nil {
		a.blocks = append(a.blocks, block{})
	}
	a.arguments(s)
}

func (a *messageAnswer) call(id, name []byte) { a.blocks = append(a.blocks, block{id: id, name: name}) }

func (a *messageAnswer) arguments(s []byte) {
	b := &a.blocks[len(a.blocks)-1]
	b.said = append(b.said, inside(s)...)
}

func (a *messageAnswer) end(r reason, u *dialect.Usage) error {
	a.open("{")
	a.member("id", a.id)
	a.open(`"type":"message","role":"assistant"`)
	a.member("model", a.model)
	a.name("content")
	a.open("[")
	for _, b := range a.blocks {
		if err := b.write(&a.writer); err != nil {
			return err
		}
		if b.id != nil && r == ended {
			r = called // OpenAI says "stop" if it had to call
		}
	}
	a.shut("]")
	a.word("stop_reason", messageReasons[r])
	a.member("stop_sequence", []byte("null"))
	a.name("usage")
	a.value(messageUsage(u))
	a.shut("}")
	return nil
}

// write writes a block. A tool that is called with no text at all has no arguments.
func (b *block) write(w *writer) error {
	said := bytes.Join([][]byte{{'"'}, b.said, {'"'}}, nil)
	if b.id == nil {
		w.open(`{"type":"text"`)
		w.member("text", said)
		w.shut("}")
		return nil
	}
	input := []byte("{}")
	if len(b.said) > 0 {
		if err := arguments(&input, said); err != nil {
			return within("tool_calls", err)
		}
	}
	w.open(`{"type":"tool_use"`)
	w.member("id", b.id)
	w.member("name", b.name)
	w.member("input", input)
	w.shut("}")
	return nil
}

// messageReasons are the reasons as Anthropic names them.
var messageReasons = [...]string{ended: "end_turn", length: "max_tokens", called: "tool_use", refused: "refusal"}

// messageUsage is usage as Anthropic has it: what a cache had is beside the input.
func messageUsage(u *dialect.Usage) []byte {
	w := &writer{}
	w.open("{")
	for _, f := range []struct {
		name string
		n    int64
	}{{"input_tokens", u.Input + u.ToolPrompt}, {"cache_creation_input_tokens", u.CacheWrite}, {"cache_read_input_tokens", u.CacheRead}, {"output_tokens", u.Output}} {
		w.member(f.name, strconv.AppendInt(nil, f.n, 10))
	}
	w.shut("}")
	return w.b
}
