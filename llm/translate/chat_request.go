package translate

// readChat reads a request of OpenAI's chat.
func readChat(body []byte) (*ask, error) {
	a := &ask{}
	var options []byte
	err := each(body, func(name string, v []byte) error {
		if f := chatFields[name]; f != nil {
			return f(a, v)
		}
		if name == "stream_options" {
			options = v
			return a.readStreamOptions(v)
		}
		return idle(chatDefaults, name, v)
	})
	if err == nil && options != nil && string(a.stream) != "true" {
		err = within("stream_options", lose("is only for a stream"))
	}
	return a, err
}

var chatFields = map[string]func(*ask, []byte) error{
	"model":                 func(*ask, []byte) error { return nil }, // it is replaced
	"messages":              (*ask).readChatMessages,
	"max_tokens":            func(a *ask, v []byte) error { return count(&a.most, v) },
	"max_completion_tokens": func(a *ask, v []byte) error { return count(&a.most, v) },
	"temperature":           func(a *ask, v []byte) error { return share(&a.temperature, v) },
	"top_p":                 func(a *ask, v []byte) error { return share(&a.topP, v) },
	"stop":                  (*ask).readStop,
	"stream":                func(a *ask, v []byte) error { return flag(&a.stream, v) },
	"tools":                 (*ask).readChatTools,
	"tool_choice":           (*ask).readChatChoice,
	"parallel_tool_calls":   func(a *ask, v []byte) error { return flag(&a.parallel, v) },
	"user":                  func(a *ask, v []byte) error { return literal(&a.user, v) },
}

// chatDefaults are fields that say nothing with these values.
var chatDefaults = map[string][]string{
	"n": {"1"}, "logprobs": {"false"}, "logit_bias": {"{}"}, "presence_penalty": {"0", "0.0"}, "frequency_penalty": {"0", "0.0"},
	"store": {"false"}, "modalities": {`["text"]`}, "response_format": {`{"type":"text"}`},
}

// idle accepts a field that has a value which says nothing.
func idle(defaults map[string][]string, name string, v []byte) error {
	for _, s := range defaults[name] {
		if string(v) == s {
			return nil
		}
	}
	return errForeign
}

func (a *ask) readStreamOptions(v []byte) error {
	return each(v, func(name string, v []byte) error {
		switch name {
		case "include_usage":
			a.usage = string(v) == "true"
			var told []byte
			return flag(&told, v)
		case "include_obfuscation":
			return idle(map[string][]string{name: {"false"}}, name, v)
		}
		return errForeign
	})
}

// readStop reads one sequence, or a list.
func (a *ask) readStop(v []byte) error {
	add := func(v []byte) error {
		var s []byte
		if err := literal(&s, v); err != nil {
			return err
		}
		a.stops = append(a.stops, s)
		return nil
	}
	if isString(v) {
		return add(v)
	}
	return every(v, add)
}

func (a *ask) readChatTools(v []byte) error {
	return every(v, func(v []byte) error {
		t := tool{schema: []byte(`{"type":"object","properties":{}}`)}
		err := each(v, func(name string, v []byte) error {
			switch {
			case name == "type" && text(v) == "function":
				return nil
			case name == "function":
				return each(v, t.readFunction)
			}
			return errForeign
		})
		if err == nil && t.name == nil {
			err = errShape
		}
		a.tools = append(a.tools, t)
		return err
	})
}

func (t *tool) readFunction(name string, v []byte) error {
	switch name {
	case "name":
		return named(&t.name, v)
	case "description":
		return literal(&t.description, v)
	case "parameters":
		return schema(&t.schema, v)
	case "strict":
		return idle(map[string][]string{name: {"false"}}, name, v)
	}
	return errForeign
}

// chatChoices are the words of Anthropic for those of OpenAI.
var chatChoices = map[string]string{"auto": "auto", "none": "none", "required": "any"}

func (a *ask) readChatChoice(v []byte) error {
	if isString(v) {
		a.choice.kind = chatChoices[text(v)]
		if a.choice.kind == "" {
			return errForeign
		}
		return nil
	}
	a.choice.kind = "tool"
	err := each(v, func(name string, v []byte) error {
		switch {
		case name == "type" && text(v) == "function":
			return nil
		case name == "function":
			return each(v, func(name string, v []byte) error {
				if name != "name" {
					return errForeign
				}
				return named(&a.choice.name, v)
			})
		}
		return errForeign
	})
	if err == nil && a.choice.name == nil {
		err = errShape
	}
	return err
}

// writeChat writes a request as OpenAI's chat.
func (a *ask) writeChat(o *Options) ([]byte, error) {
	switch {
	case a.most == nil:
		return nil, within("max_tokens", lose("is absent"))
	case len(a.stops) > 0:
		return nil, within("stop_sequences", lose("cannot be told apart in the answer of the other dialect"))
	}
	w := &writer{}
	w.open("{")
	w.member("model", quote([]byte(o.Model)))
	a.writeChatMessages(w)
	w.member("max_completion_tokens", a.most)
	w.member("temperature", a.temperature)
	w.member("top_p", a.topP)
	w.member("stream", a.stream)
	if string(a.stream) == "true" && o.StreamUsage {
		w.member("stream_options", []byte(`{"include_usage":true}`))
	}
	a.writeChatTools(w)
	w.member("user", a.user)
	w.shut("}")
	return w.b, nil
}

func (a *ask) writeChatTools(w *writer) {
	if len(a.tools) > 0 {
		w.name("tools")
		w.open("[")
		for _, t := range a.tools {
			w.open(`{"type":"function","function":{`)
			w.member("name", t.name)
			w.member("description", t.description)
			w.member("parameters", t.schema)
			w.shut("}}")
		}
		w.shut("]")
	}
	switch a.choice.kind {
	case "":
	case "tool":
		w.name("tool_choice")
		w.open(`{"type":"function","function":{`)
		w.member("name", a.choice.name)
		w.shut("}}")
	case "any":
		w.word("tool_choice", "required")
	default:
		w.word("tool_choice", a.choice.kind)
	}
	w.member("parallel_tool_calls", a.parallel)
}
