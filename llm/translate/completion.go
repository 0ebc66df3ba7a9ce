package translate

import (
	"bytes"
	"strconv"

	"github.com/sluicegate/sluice/llm/dialect"
)

// readCompletion reads an answer of OpenAI's chat that is in one piece.
func readCompletion(body []byte, u *dialect.Usage, to listener) error {
	r := &chatReader{to: to}
	n := 0
	err := r.envelope(body, func(v []byte) error {
		if n++; n > 1 {
			return lose("is more than one")
		}
		return r.choice(v, "message")
	})
	switch {
	case err != nil:
		return err
	case r.why == untold:
		return within("choices", lose("has no reason to end"))
	}
	return to.end(r.reason(), u)
}

// A chatReader reads an answer of OpenAI's chat, in one piece or in chunks.
type chatReader struct {
	to      listener
	begun   bool
	why     reason
	refused bool
	calls   int  // that have begun
	calling bool // the last of them may go on
}

// envelope reads what frames an answer, or a chunk of one, and calls read for each choice.
// What else the frame has is about the provider.
func (r *chatReader) envelope(body []byte, read func([]byte) error) error {
	id, model, choices := []byte(`""`), []byte(`""`), []byte("[]")
	err := each(body, func(name string, v []byte) error {
		switch name {
		case "id":
			return literal(&id, v)
		case "model":
			return literal(&model, v)
		case "choices":
			choices = v
		}
		return nil
	})
	if err != nil {
		return err
	}
	return every(choices, func(v []byte) error {
		if !r.begun { // a chunk without a choice may come first, and it knows no id
			r.begun = true
			r.to.start(id, model)
		}
		return read(v)
	})
}

// finishReasons are OpenAI's reasons.
var finishReasons = map[string]reason{"stop": ended, "length": length, "tool_calls": called, "content_filter": refused}

// choice reads a choice, whose words are in the member of this name.
func (r *chatReader) choice(v []byte, words string) error {
	var why []byte
	err := each(v, func(name string, v []byte) error {
		switch name {
		case words:
			return each(v, r.said)
		case "index":
			return idle(map[string][]string{name: {"0"}}, name, v)
		case "finish_reason":
			why = v
		}
		return nil
	})
	if err == nil && why != nil {
		if r.why = finishReasons[text(why)]; r.why == untold {
			err = within("finish_reason", errForeign)
		}
	}
	return err
}

// reason is why the answer ended.
func (r *chatReader) reason() reason {
	if r.refused {
		return refused
	}
	return r.why
}

// said reads a member of a message, or of a piece of one.
func (r *chatReader) said(name string, v []byte) error {
	switch name {
	case "role", "reasoning", "reasoning_content", "reasoning_details":
		return nil
	case "content":
		return r.content(v)
	case "refusal":
		r.refused = r.refused || len(v) > 2
		return r.string(v)
	case "tool_calls":
		return every(v, r.call)
	}
	if empty := bytes.TrimSpace(v); string(empty) == "[]" || string(empty) == "{}" || string(empty) == `""` {
		return nil
	}
	return errForeign
}

func (r *chatReader) string(v []byte) error {
	if !isString(v) {
		return errShape
	}
	if len(v) > 2 {
		r.calling = false
		r.to.text(v)
	}
	return nil
}

// content reads what is said: a string, or a list, as Mistral has it.
func (r *chatReader) content(v []byte) error {
	if isString(v) {
		return r.string(v)
	}
	return every(v, func(v []byte) error {
		switch kindOf(v) {
		case "text":
			return r.string(member(v, "text"))
		case "thinking":
			return nil
		}
		return errForeign
	})
}

// call reads a call, or a piece of one: the first has its name, and the pieces of several
// calls do not mix.
func (r *chatReader) call(v []byte) error {
	var c struct{ id, name, arguments []byte }
	index := r.calls
	err := each(v, func(name string, v []byte) error {
		switch name {
		case "index":
			n, err := strconv.Atoi(string(v))
			if err != nil {
				return errShape
			}
			index = n
			return nil
		case "id":
			return literal(&c.id, v)
		case "type":
			return idle(map[string][]string{name: {`"function"`}}, name, v)
		case "function":
			return each(v, func(name string, v []byte) error {
				switch name {
				case "name":
					return literal(&c.name, v)
				case "arguments":
					return literal(&c.arguments, v)
				}
				return errForeign
			})
		}
		return errForeign
	})
	switch {
	case err != nil:
		return err
	case index == r.calls && c.id != nil && c.name != nil:
		r.calls++
		r.calling = true
		r.to.call(c.id, c.name)
	case index != r.calls-1 || !r.calling:
		return lose("is not in its turn")
	}
	if len(c.arguments) > 2 {
		r.to.arguments(c.arguments)
	}
	return nil
}
