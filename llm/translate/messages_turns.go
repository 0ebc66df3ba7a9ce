package translate

import (
	"strconv"
	"unicode/utf8"
)

func (a *ask) readSystem(v []byte) (err error) {
	a.system, err = readContent(v)
	if err == nil && a.system.pictures() {
		err = errForeign
	}
	return err
}

func (a *ask) readTurns(v []byte) error {
	return every(v, func(v []byte) error {
		var role string
		var t turn
		err := each(v, func(name string, v []byte) (err error) {
			switch name {
			case "role":
				role = text(v)
			case "content":
				if isString(v) {
					t.content = content{plain: true, parts: []part{{text: v}}}
					return nil
				}
				err = every(v, t.readBlock)
			default:
				err = errForeign
			}
			return err
		})
		if err == nil {
			err = t.plausible(role)
		}
		a.turns = append(a.turns, t)
		return err
	})
}

// plausible checks that a turn has what its role may have.
func (t *turn) plausible(role string) error {
	t.assistant = role == "assistant"
	switch {
	case role != "user" && !t.assistant:
		return within("role", errForeign)
	case t.assistant && (t.results != nil || t.content.pictures()), !t.assistant && t.calls != nil:
		return within("content", errForeign)
	}
	if len(t.calls) > 0 && len(t.content.parts) == 1 {
		t.content.plain = true // as OpenAI has it
	}
	return nil
}

// readBlock reads a block of a message. Chat has results before what is said, and calls
// after it; another order cannot be kept.
func (t *turn) readBlock(v []byte) error {
	switch kindOf(v) {
	case "tool_use":
		c, err := readToolUse(v)
		t.calls = append(t.calls, c)
		return err
	case "tool_result":
		if len(t.content.parts) > 0 {
			return lose("comes after what is said")
		}
		r, err := readResult(v)
		t.results = append(t.results, r)
		return err
	}
	if len(t.calls) > 0 {
		return lose("comes after a call")
	}
	p, err := readPart(v, "image", "source", (*picture).read)
	t.content.parts = append(t.content.parts, p)
	return err
}

func readToolUse(v []byte) (c call, err error) {
	err = each(v, func(name string, v []byte) error {
		switch name {
		case "type":
			return nil
		case "id":
			return identified(&c.id, v)
		case "name":
			return named(&c.name, v)
		case "input":
			return object(&c.arguments, v)
		case "caller":
			return idle(map[string][]string{name: {`{"type":"direct"}`}}, name, v)
		}
		return errForeign
	})
	if err == nil && (c.id == nil || c.name == nil || c.arguments == nil) {
		err = errShape
	}
	return c, err
}

func readResult(v []byte) (r result, err error) {
	err = each(v, func(name string, v []byte) (err error) {
		switch name {
		case "type":
		case "tool_use_id":
			err = identified(&r.id, v)
		case "content":
			if r.content, err = readContent(v); err == nil && r.content.pictures() {
				err = errForeign
			}
		default:
			err = idle(map[string][]string{"is_error": {"false"}}, name, v)
		}
		return err
	})
	if err == nil && r.id == nil {
		err = errShape
	}
	return r, err
}

func readContent(v []byte) (c content, err error) {
	if isString(v) {
		return content{plain: true, parts: []part{{text: v}}}, nil
	}
	err = every(v, func(v []byte) error {
		p, err := readPart(v, "image", "source", (*picture).read)
		c.parts = append(c.parts, p)
		return err
	})
	return c, err
}

// readPart reads a piece of text, or a picture: of the type kind, in the member source, which
// read takes in.
func readPart(v []byte, kind, source string, read func(*picture, []byte) error) (p part, err error) {
	is := kindOf(v)
	err = each(v, func(name string, v []byte) error {
		switch {
		case name == "type" && (is == "text" || is == kind):
			return nil
		case name == "text" && is == "text":
			return literal(&p.text, v)
		case name == source && is == kind:
			p.picture = &picture{}
			return read(p.picture, v)
		}
		return errForeign
	})
	if err == nil && p.text == nil && p.picture == nil {
		err = errShape
	}
	return p, err
}

func (p *picture) read(v []byte) error {
	kind, media := kindOf(v), text(member(v, "media_type"))
	err := each(v, func(name string, v []byte) error {
		switch {
		case name == "type" && (kind == "url" || kind == "base64"), name == "media_type" && kind == "base64":
			return nil
		case name == "url" && kind == "url":
			return p.readAddress(v)
		case name == "data" && kind == "base64":
			return p.readData(media, text(v))
		}
		return errForeign
	})
	if err == nil && p.url == nil && p.data == "" {
		err = errShape
	}
	return err
}

// maxUser is how long Anthropic allows a user's name to be.
const maxUser = 256

// allowed checks what Anthropic asks for beyond what both do, and completes the bound of the
// output, which it does not do without.
func (a *ask) allowed(o *Options) error {
	if a.most == nil {
		if o.MaxOutput <= 0 {
			return within("max_tokens", lose("is absent, and how much the model can write is not known"))
		}
		a.most = strconv.AppendInt(nil, o.MaxOutput, 10)
	}
	for i, s := range a.stops {
		if blank(s) {
			return within("stop", at(i, lose("is nothing but space")))
		}
	}
	if a.system.blank() {
		return within("messages", lose("has a text that is nothing but space"))
	}
	if utf8.RuneCountInString(text(a.user)) > maxUser {
		return within("user", lose("is too long"))
	}
	return a.allowedTurns()
}

func (a *ask) allowedTurns() error {
	if a.turns[0].assistant {
		return within("messages", lose("begins with the assistant"))
	}
	for i := range a.turns {
		t := &a.turns[i]
		if len(a.tools) == 0 && len(t.calls)+len(t.results) > 0 {
			return within("tools", lose("is absent, and there are calls of tools"))
		}
		empty := t.content.blank()
		for j := range t.results {
			if c := &t.results[j].content; !c.plain {
				empty = empty || c.blank()
			}
		}
		if empty {
			return within("messages", lose("has a text that is nothing but space"))
		}
	}
	return nil
}

// blank reports whether one of the texts is nothing but space.
func (c *content) blank() bool {
	for _, p := range c.parts {
		if p.text != nil && blank(p.text) {
			return true
		}
	}
	return false
}

// write writes a message.
func (t *turn) write(w *writer) {
	if t.assistant {
		w.open(`{"role":"assistant"`)
	} else {
		w.open(`{"role":"user"`)
	}
	w.name("content")
	if t.content.plain && len(t.results)+len(t.calls) == 0 {
		t.content.write(w)
		w.shut("}")
		return
	}
	w.open("[")
	for _, r := range t.results {
		w.open(`{"type":"tool_result"`)
		w.member("tool_use_id", r.id)
		if len(r.content.parts) > 0 {
			w.name("content")
			r.content.write(w)
		}
		w.shut("}")
	}
	t.content.writeParts(w)
	for _, c := range t.calls {
		w.open(`{"type":"tool_use"`)
		w.member("id", c.id)
		w.member("name", c.name)
		w.member("input", c.arguments)
		w.shut("}")
	}
	w.shut("]}")
}

// write writes a content as the value of a member.
func (c *content) write(w *writer) {
	if c.plain {
		w.value(c.parts[0].text)
		return
	}
	w.open("[")
	c.writeParts(w)
	w.shut("]")
}

func (c *content) writeParts(w *writer) {
	for _, p := range c.parts {
		switch {
		case p.text != nil:
			w.open(`{"type":"text"`)
			w.member("text", p.text)
			w.shut("}")
		case p.picture.url != nil:
			w.open(`{"type":"image","source":{"type":"url"`)
			w.member("url", p.picture.url)
			w.shut("}}")
		default:
			w.open(`{"type":"image","source":{"type":"base64"`)
			w.word("media_type", p.picture.media)
			w.word("data", p.picture.data)
			w.shut("}}")
		}
	}
}
