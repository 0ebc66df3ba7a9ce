package translate

import "strings"

// A chatMessage is one of OpenAI's messages, as it is read.
type chatMessage struct {
	role    string
	id      []byte
	content content
	calls   []call
}

func (a *ask) readChatMessages(v []byte) error {
	return every(v, func(v []byte) error {
		var m chatMessage
		if err := each(v, m.read); err != nil {
			return err
		}
		return a.addChat(&m)
	})
}

// read reads a field of a message. Those that an answer has and that say nothing may come
// back with it.
func (m *chatMessage) read(name string, v []byte) (err error) {
	switch name {
	case "role":
		m.role = text(v)
	case "content":
		m.content, err = readChatContent(v)
	case "tool_call_id":
		err = identified(&m.id, v)
	case "tool_calls":
		err = every(v, func(v []byte) error {
			c, err := readChatCall(v)
			m.calls = append(m.calls, c)
			return err
		})
	default:
		err = idle(map[string][]string{"annotations": {"[]"}}, name, v)
	}
	return err
}

// addChat gives a message its place.
func (a *ask) addChat(m *chatMessage) error {
	if m.role != "assistant" && m.calls != nil || m.role != "tool" && m.id != nil {
		return errForeign
	}
	switch m.role {
	case "system", "developer":
		if len(a.turns) > 0 || m.content.pictures() {
			return lose("is a system message that does not stand first, or has a picture")
		}
		a.system.plain = m.content.plain && len(a.system.parts) == 0
		a.system.parts = append(a.system.parts, m.content.parts...)
	case "user":
		if len(m.content.parts) == 0 {
			return errShape
		}
		a.speaks(m.content)
	case "assistant":
		if m.content.pictures() {
			return errForeign
		}
		if len(m.calls) > 0 && m.content.plain && text(m.content.parts[0].text) == "" {
			m.content = content{} // some send this beside calls for no text
		}
		a.turns = append(a.turns, turn{assistant: true, content: m.content, calls: m.calls})
	case "tool":
		if m.id == nil || m.content.pictures() {
			return errShape
		}
		a.returns(result{m.id, m.content})
	default:
		return within("role", errForeign)
	}
	return nil
}

// pictures reports whether there is one.
func (c *content) pictures() bool {
	for _, p := range c.parts {
		if p.picture != nil {
			return true
		}
	}
	return false
}

func readChatContent(v []byte) (c content, err error) {
	if isString(v) {
		return content{plain: true, parts: []part{{text: v}}}, nil
	}
	err = every(v, func(v []byte) error {
		p, err := readPart(v, "image_url", "image_url", (*picture).readChat)
		c.parts = append(c.parts, p)
		return err
	})
	return c, err
}

// readChat reads an address, or the data in it.
func (p *picture) readChat(v []byte) error {
	err := each(v, func(name string, v []byte) error {
		switch name {
		case "url":
			return p.readURL(v)
		case "detail":
			return idle(map[string][]string{name: {`"auto"`}}, name, v)
		}
		return errForeign
	})
	if err == nil && p.url == nil && p.data == "" {
		err = errShape
	}
	return err
}

func (p *picture) readURL(v []byte) error {
	head, data, _ := strings.Cut(text(v), ",")
	media, ok := strings.CutPrefix(head, "data:")
	if !ok {
		return p.readAddress(v)
	}
	media, ok = strings.CutSuffix(media, ";base64")
	if !ok {
		return errForeign
	}
	return p.readData(media, data)
}

// readAddress takes an address that both providers fetch.
func (p *picture) readAddress(v []byte) error {
	if !strings.HasPrefix(text(v), "https://") {
		return lose("is no address with https, and no data")
	}
	p.url = v
	return nil
}

// readData takes data of a kind that both providers read.
func (p *picture) readData(media, data string) error {
	switch media {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
	default:
		return errForeign
	}
	if data == "" || strings.IndexFunc(data, notBase64) >= 0 {
		return errShape
	}
	p.media, p.data = media, data
	return nil
}

func notBase64(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '=')
}

func readChatCall(v []byte) (c call, err error) {
	err = each(v, func(name string, v []byte) error {
		switch {
		case name == "id":
			return identified(&c.id, v)
		case name == "type" && text(v) == "function":
			return nil
		case name == "function":
			return each(v, func(name string, v []byte) error {
				switch name {
				case "name":
					return named(&c.name, v)
				case "arguments":
					return arguments(&c.arguments, v)
				}
				return errForeign
			})
		}
		return errForeign
	})
	if err == nil && (c.id == nil || c.name == nil || c.arguments == nil) {
		err = errShape
	}
	return c, err
}

func (a *ask) writeChatMessages(w *writer) {
	w.name("messages")
	w.open("[")
	if len(a.system.parts) > 0 {
		a.system.writeChat(w, `{"role":"system"`)
		w.shut("}")
	}
	for i := range a.turns {
		a.turns[i].writeChat(w)
	}
	w.shut("]")
}

func (t *turn) writeChat(w *writer) {
	for _, r := range t.results {
		w.open(`{"role":"tool"`)
		w.member("tool_call_id", r.id)
		r.content.writeChat(w, "")
		w.shut("}")
	}
	switch {
	case t.assistant:
		t.content.writeChat(w, `{"role":"assistant"`)
		if len(t.calls) > 0 {
			w.name("tool_calls")
			w.open("[")
			for _, c := range t.calls {
				w.open(`{`)
				w.member("id", c.id)
				w.open(`"type":"function","function":{`)
				w.member("name", c.name)
				w.member("arguments", quote(c.arguments))
				w.shut("}}")
			}
			w.shut("]")
		}
		w.shut("}")
	case len(t.content.parts) > 0:
		t.content.writeChat(w, `{"role":"user"`)
		w.shut("}")
	}
}

// writeChat writes the content of a message that begins with open.
func (c *content) writeChat(w *writer, open string) {
	if open != "" {
		w.open(open)
	}
	w.name("content")
	switch {
	case len(c.parts) == 0 && open != "":
		w.value([]byte("null"))
		return
	case len(c.parts) == 0:
		w.value([]byte(`""`))
		return
	case c.plain:
		w.value(c.parts[0].text)
		return
	}
	w.open("[")
	for _, p := range c.parts {
		switch {
		case p.text != nil:
			w.open(`{"type":"text"`)
			w.member("text", p.text)
			w.shut("}")
		case p.picture.url != nil:
			w.open(`{"type":"image_url","image_url":{`)
			w.member("url", p.picture.url)
			w.shut("}}")
		default:
			w.open(`{"type":"image_url","image_url":{`)
			w.word("url", "data:"+p.picture.media+";base64,"+p.picture.data)
			w.shut("}}")
		}
	}
	w.shut("]")
}
