package translate

// readMessages reads a request of Anthropic's messages.
func readMessages(body []byte) (*ask, error) {
	a := &ask{}
	return a, each(body, func(name string, v []byte) error {
		if f := messagesFields[name]; f != nil {
			return f(a, v)
		}
		return idle(messagesDefaults, name, v)
	})
}

var messagesFields = map[string]func(*ask, []byte) error{
	"model":          func(*ask, []byte) error { return nil }, // it is replaced
	"max_tokens":     func(a *ask, v []byte) error { return count(&a.most, v) },
	"system":         (*ask).readSystem,
	"messages":       (*ask).readTurns,
	"temperature":    func(a *ask, v []byte) error { return share(&a.temperature, v) },
	"top_p":          func(a *ask, v []byte) error { return share(&a.topP, v) },
	"stop_sequences": (*ask).readStop,
	"stream":         func(a *ask, v []byte) error { return flag(&a.stream, v) },
	"tools":          (*ask).readTools,
	"tool_choice":    (*ask).readChoice,
	"metadata": func(a *ask, v []byte) error {
		return each(v, func(name string, v []byte) error {
			if name != "user_id" {
				return errForeign
			}
			return literal(&a.user, v)
		})
	},
}

// messagesDefaults are fields that say nothing with these values.
var messagesDefaults = map[string][]string{"thinking": {`{"type":"disabled"}`}}

func (a *ask) readTools(v []byte) error {
	return every(v, func(v []byte) error {
		var t tool
		err := each(v, func(name string, v []byte) error {
			switch name {
			case "type":
				return idle(map[string][]string{name: {`"custom"`}}, name, v)
			case "name":
				return named(&t.name, v)
			case "description":
				return literal(&t.description, v)
			case "input_schema":
				return schema(&t.schema, v)
			case "strict":
				return idle(map[string][]string{name: {"false"}}, name, v)
			}
			return errForeign
		})
		if err == nil && (t.name == nil || t.schema == nil) {
			err = errShape
		}
		a.tools = append(a.tools, t)
		return err
	})
}

func (a *ask) readChoice(v []byte) error {
	a.choice.kind = kindOf(v)
	err := each(v, func(name string, v []byte) error {
		switch {
		case name == "type":
			return nil
		case name == "name" && a.choice.kind == "tool":
			return named(&a.choice.name, v)
		case name == "disable_parallel_tool_use" && a.choice.kind != "none":
			if err := flag(&a.parallel, v); err != nil {
				return err
			}
			a.parallel = opposite(a.parallel)
			return nil
		}
		return errForeign
	})
	switch k := a.choice.kind; {
	case err != nil:
		return err
	case k == "tool" && a.choice.name == nil:
		return errShape
	case k != "auto" && k != "any" && k != "none" && k != "tool":
		return errForeign
	}
	return nil
}

// opposite is what a flag is that says the contrary.
func opposite(v []byte) []byte {
	if string(v) == "true" {
		return []byte("false")
	}
	return []byte("true")
}

// writeMessages writes a request as Anthropic's messages.
func (a *ask) writeMessages(o *Options) ([]byte, error) {
	if err := a.allowed(o); err != nil {
		return nil, err
	}
	w := &writer{}
	w.open("{")
	w.member("model", quote([]byte(o.Model)))
	w.member("max_tokens", a.most)
	if len(a.system.parts) > 0 {
		w.name("system")
		a.system.write(w)
	}
	w.name("messages")
	w.open("[")
	for i := range a.turns {
		a.turns[i].write(w)
	}
	w.shut("]")
	w.member("temperature", a.temperature)
	w.member("top_p", a.topP)
	if len(a.stops) > 0 {
		w.name("stop_sequences")
		w.open("[")
		for _, s := range a.stops {
			w.value(s)
		}
		w.shut("]")
	}
	w.member("stream", a.stream)
	a.writeTools(w)
	if a.user != nil {
		w.name("metadata")
		w.open("{")
		w.member("user_id", a.user)
		w.shut("}")
	}
	w.shut("}")
	return w.b, nil
}

func (a *ask) writeTools(w *writer) {
	if len(a.tools) == 0 {
		return
	}
	w.name("tools")
	w.open("[")
	for _, t := range a.tools {
		w.open("{")
		w.member("name", t.name)
		w.member("description", t.description)
		w.member("input_schema", t.schema)
		w.shut("}")
	}
	w.shut("]")
	kind := a.choice.kind
	if kind == "" && a.parallel != nil {
		kind = "auto" // which it is if nothing is said
	}
	if kind == "" {
		return
	}
	w.name("tool_choice")
	w.open("{")
	w.word("type", kind)
	w.member("name", a.choice.name)
	if a.parallel != nil && kind != "none" { // nothing that is not called is called at once
		w.member("disable_parallel_tool_use", opposite(a.parallel))
	}
	w.shut("}")
}
