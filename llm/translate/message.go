package translate

import "github.com/sluicegate/sluice/llm/dialect"

// stopReasons are Anthropic's reasons.
var stopReasons = map[string]reason{"end_turn": ended, "stop_sequence": ended, "max_tokens": length, "model_context_window_exceeded": length,
	"tool_use": called, "refusal": refused}

// readMessage reads an answer of Anthropic's messages that is in one piece.
func readMessage(body []byte, u *dialect.Usage, to listener) error {
	id, model, content := []byte(`""`), []byte(`""`), []byte("[]")
	why := untold
	err := each(body, func(name string, v []byte) error {
		switch name {
		case "id":
			return literal(&id, v)
		case "model":
			return literal(&model, v)
		case "content":
			content = v
		case "stop_reason":
			if why = stopReasons[text(v)]; why == untold {
				return errForeign
			}
		}
		return nil
	})
	if err == nil && why == untold {
		err = within("stop_reason", lose("is absent"))
	}
	if err != nil {
		return err
	}
	to.start(id, model)
	err = every(content, func(v []byte) error {
		b := &messageBlock{}
		if err := b.read(v); err != nil {
			return err
		}
		b.start(to)
		b.end(to)
		return nil
	})
	if err != nil {
		return within("content", err)
	}
	return to.end(why, u)
}

// A messageBlock is a block of an answer of Anthropic's messages.
type messageBlock struct {
	kind            string
	id, name, input []byte
	words           []byte
	said            bool // its arguments have begun
}

// read reads a block, or the beginning of one.
func (b *messageBlock) read(v []byte) error {
	b.kind = kindOf(v)
	switch b.kind {
	case "thinking", "redacted_thinking":
		return nil
	case "text", "tool_use":
	default:
		return within("type", errForeign)
	}
	err := each(v, func(name string, v []byte) error {
		switch name {
		case "type":
			return nil
		case "text":
			return literal(&b.words, v)
		case "id":
			return literal(&b.id, v)
		case "name":
			return literal(&b.name, v)
		case "input":
			return object(&b.input, v)
		case "caller":
			return idle(map[string][]string{name: {`{"type":"direct"}`}}, name, v)
		}
		return idle(map[string][]string{"citations": {"[]"}}, name, v)
	})
	if err == nil && b.kind == "tool_use" && (b.id == nil || b.name == nil) {
		err = errShape
	}
	return err
}

// start says how a block begins.
func (b *messageBlock) start(to listener) {
	switch {
	case b.kind == "tool_use":
		to.call(b.id, b.name)
	case len(b.words) > 2:
		to.text(b.words)
	}
}

// end says what of a block was not said in pieces.
func (b *messageBlock) end(to listener) {
	if b.kind != "tool_use" || b.said {
		return
	}
	if b.input == nil {
		b.input = []byte("{}")
	}
	to.arguments(quote(b.input))
}
