package dialect

import "bytes"

// A Stage says what an event means for a stream that has not been let through yet.
type Stage uint8

const (
	// Preamble comes before the answer: nothing is lost if the call is made elsewhere.
	Preamble Stage = iota
	// Content is a part of the answer, or what nobody here knows.
	Content
	// UsageOnly is OpenAI's event that has nothing but the usage that was asked for.
	UsageOnly
	// Final ends a stream that is whole.
	Final
	// Failure says that the provider has failed.
	Failure
)

// A Meter reads an answer, event by event, and says what it used. It is not safe for
// concurrent use.
type Meter struct {
	route  Route
	tally  tally
	stages [Failure + 1]bool
	onText func([]byte)
}

// NewMeter returns a Meter of an answer on this route. onText, if it is not nil, is given
// what the answer says, as the inside of JSON strings: what an estimate of its tokens is
// made of if the provider does not get to say.
func (r Route) NewMeter(onText func([]byte)) *Meter { return &Meter{route: r, onText: onText} }

// Usage returns what the answer has said so far that it took. It reports false if it has
// said nothing.
func (m *Meter) Usage() (Usage, bool) { return m.tally.usage(m.route.Dialect) }

// Ended reports whether the answer is whole by its own word: its last event, or a reason to
// finish, after which some servers say nothing more.
func (m *Meter) Ended() bool { return m.stages[Final] }

// Read reads an event and says what it means.
func (m *Meter) Read(e Event) Stage {
	s := Content
	switch {
	case e.Part:
	case len(e.Data) == 0:
		s = Preamble // a comment, a ping
	case m.route.Dialect == OpenAI && m.route.Operation == Responses:
		s = m.readResponses(e)
	case m.route.Dialect == OpenAI:
		s = m.readChunk(e)
	case m.route.Dialect == Anthropic:
		s = m.readAnthropic(e)
	case m.route.Dialect == Gemini:
		s = m.readGemini(e)
	case m.route.Dialect == Ollama:
		s = m.readLine(e)
	}
	m.stages[s] = true
	return s
}

// IsError reports whether a body is an error although its status may say otherwise.
func IsError(body []byte) bool { return !isNull(find(body, "error")) }

// ReadWhole reads an answer that is no stream, or the end of one that is large.
func (m *Meter) ReadWhole(body []byte) {
	if len(body) > 0 && body[0] == '{' {
		object(body, func(v member) bool {
			switch string(v.name) {
			case "usage", "usageMetadata":
				m.tally.read(m.route.Dialect, v.value)
			case "choices", "output", "content", "candidates", "message", "response":
				m.say(v.value)
			}
			return true
		})
		if m.route.Dialect == Ollama {
			m.tally.read(Ollama, body)
		}
		return
	}
	m.readTail(body)
}

// readTail looks for usage in the end of an answer whose beginning was too large to keep.
// Inside a string its name would have its quotes escaped.
func (m *Meter) readTail(end []byte) {
	for _, name := range []string{`"usage"`, `"usageMetadata"`} {
		if i := bytes.LastIndex(end, []byte(name)); i >= 0 {
			at := skipSpace(end, i+len(name))
			if at < len(end) && end[at] == ':' {
				at = skipSpace(end, at+1)
				if stop := valueEnd(end, at); stop > at {
					m.tally.read(m.route.Dialect, end[at:stop])
				}
			}
		}
	}
}

// readChunk reads a chunk of OpenAI's chat or completions.
func (m *Meter) readChunk(e Event) Stage {
	if string(e.Data) == "[DONE]" {
		return Final
	}
	s, told, empty := Preamble, false, false
	ok := object(e.Data, func(v member) bool {
		switch string(v.name) {
		case "error":
			if !isNull(v.value) {
				s = Failure
			}
		case "usage":
			told = !isNull(v.value)
			m.tally.read(OpenAI, v.value)
		case "x_groq":
			m.tally.read(OpenAI, find(v.value, "usage"))
		case "choices":
			empty = true
			array(v.value, func(choice []byte) bool {
				empty = false
				if m.readChoice(choice) && s == Preamble {
					s = Content
				}
				return true
			})
		}
		return true
	})
	switch {
	case !ok:
		m.readTail(e.Data)
		return Content
	case s == Preamble && told && empty:
		return UsageOnly
	}
	return s
}

// readChoice reports whether a choice of a chunk says anything.
func (m *Meter) readChoice(choice []byte) (says bool) {
	object(choice, func(v member) bool {
		switch string(v.name) {
		case "finish_reason":
			if !isNull(v.value) {
				says, m.stages[Final] = true, true
			}
		case "text":
			says = m.say(v.value) || says
		case "delta", "message":
			object(v.value, func(d member) bool {
				if string(d.name) != "role" {
					says = m.say(d.value) || says
				}
				return true
			})
		}
		return true
	})
	return says
}

// say notes text that the client gets to see, and reports whether there is any. Of a list or
// an object it is all strings.
func (m *Meter) say(value []byte) bool { return m.sayAt(value, 0) }

func (m *Meter) sayAt(value []byte, depth int) (any bool) {
	switch {
	case isNull(value) || depth > maxDepth:
		return false
	case isString(value):
		if len(value) > 2 && m.onText != nil {
			m.onText(value[1 : len(value)-1])
		}
		return len(value) > 2
	case value[0] == '[':
		array(value, func(v []byte) bool { any = m.sayAt(v, depth+1) || any; return true })
	case value[0] == '{':
		object(value, func(v member) bool {
			if !silent[string(v.name)] {
				any = m.sayAt(v.value, depth+1) || any
			}
			return true
		})
	}
	return any
}

// readResponses reads an event of OpenAI's responses.
func (m *Meter) readResponses(e Event) Stage {
	switch kind := typeOf(e); kind {
	case "response.created", "response.queued", "response.in_progress":
		return Preamble
	case "response.completed", "response.incomplete":
		m.tally.read(OpenAI, find(find(e.Data, "response"), "usage"))
		return Final
	case "response.failed", "error":
		m.tally.read(OpenAI, find(find(e.Data, "response"), "usage"))
		return Failure
	default:
		m.say(find(e.Data, "delta"))
	}
	return Content
}

// readAnthropic reads an event of Anthropic's messages.
func (m *Meter) readAnthropic(e Event) Stage {
	switch typeOf(e) {
	case "message_start":
		m.tally.read(Anthropic, find(find(e.Data, "message"), "usage"))
		return Preamble
	case "ping":
		return Preamble
	case "message_delta":
		m.tally.read(Anthropic, find(e.Data, "usage"))
	case "message_stop":
		return Final
	case "error":
		return Failure
	case "content_block_delta":
		object(find(e.Data, "delta"), func(v member) bool {
			if !silent[string(v.name)] {
				m.say(v.value)
			}
			return true
		})
	}
	return Content
}

// typeOf is an event's type: by its data, and else by its event field.
func typeOf(e Event) string {
	if kind := text(find(e.Data, "type")); kind != "" {
		return kind
	}
	return e.Name
}

// readGemini reads a chunk of Gemini.
func (m *Meter) readGemini(e Event) Stage {
	s := Preamble
	ok := object(e.Data, func(v member) bool {
		switch string(v.name) {
		case "error":
			if !isNull(v.value) {
				s = Failure
			}
		case "usageMetadata":
			m.tally.read(Gemini, v.value)
		case "promptFeedback":
			s = max(s, Content)
		case "candidates":
			array(v.value, func(candidate []byte) bool {
				if !isNull(find(candidate, "finishReason")) {
					m.stages[Final] = true
					s = max(s, Content)
				}
				if m.say(find(find(candidate, "content"), "parts")) {
					s = max(s, Content)
				}
				return true
			})
		}
		return true
	})
	if !ok && len(e.Data) > 0 {
		m.readTail(e.Data)
		return Content
	}
	return s
}

// readLine reads a line of Ollama.
func (m *Meter) readLine(e Event) Stage {
	s := Preamble
	object(e.Data, func(v member) bool {
		switch string(v.name) {
		case "error":
			if !isNull(v.value) {
				s = Failure
			}
		case "message", "response", "thinking":
			if m.say(v.value) && s == Preamble {
				s = Content
			}
		case "done":
			if string(v.value) == "true" {
				s = Final
			}
		}
		return true
	})
	if s == Final {
		m.tally.read(Ollama, e.Data)
	}
	return s
}
