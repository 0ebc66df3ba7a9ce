package translate

import (
	"strconv"

	"github.com/sluicegate/sluice/llm/dialect"
)

// A chatChunks writes the stream of OpenAI's chat.
type chatChunks struct {
	out     []byte
	created int64
	usage   bool // is told at the end, and null before
	head    []byte
	calls   int
}

func (c *chatChunks) start(id, model []byte) {
	w := &writer{}
	w.open("{")
	w.member("id", id)
	w.word("object", "chat.completion.chunk")
	w.member("created", strconv.AppendInt(nil, c.created, 10))
	w.member("model", model)
	c.head = w.b
	c.chunk(`"role":"assistant","content":""`, "", "")
}

func (c *chatChunks) text(s []byte) { c.chunk(`"content":`, string(s), "") }

func (c *chatChunks) call(id, name []byte) {
	w := &writer{}
	w.open(`{"index":` + strconv.Itoa(c.calls))
	w.member("id", id)
	w.open(`"type":"function","function":{`)
	w.member("name", name)
	w.word("arguments", "")
	w.shut("}}")
	c.calls++
	c.chunk(`"tool_calls":[`, string(w.b), `]`)
}

func (c *chatChunks) arguments(s []byte) {
	c.chunk(`"tool_calls":[{"index":`+strconv.Itoa(c.calls-1)+`,"function":{"arguments":`, string(s), `}}]`)
}

// chunk writes a piece of the answer, which stands in three pieces here.
func (c *chatChunks) chunk(before, s, after string) { c.write("{"+before+s+after+"}", "null") }

func (c *chatChunks) write(delta, why string) {
	c.out = append(append(c.out, "data: "...), c.head...)
	c.out = append(c.out, `,"choices":[{"index":0,"delta":`+delta+`,"logprobs":null,"finish_reason":`+why+`}]`...)
	if c.usage {
		c.out = append(c.out, `,"usage":null`...)
	}
	c.out = append(c.out, "}\n\n"...)
}

func (c *chatChunks) end(r reason, u *dialect.Usage) error {
	c.write("{}", `"`+chatReasons[r]+`"`)
	if c.usage && (u.HasInput || u.HasOutput) {
		c.out = append(append(c.out, "data: "...), c.head...)
		c.out = append(append(append(c.out, `,"choices":[],"usage":`...), chatUsage(u)...), "}\n\n"...)
	}
	c.out = append(c.out, "data: [DONE]\n\n"...)
	return nil
}

// A messageEvents writes the stream of Anthropic's messages. Each event has its event field,
// without which SDKs leave it out.
type messageEvents struct {
	out    []byte
	open   string // the kind of the block that has begun
	blocks int    // that have begun
	calls  bool
}

func (m *messageEvents) event(name, rest string) {
	m.out = append(m.out, "event: "+name+"\ndata: {\"type\":\""+name+"\""+rest+"}\n\n"...)
}

func (m *messageEvents) start(id, model []byte) {
	w := &writer{}
	w.open("{")
	w.member("id", id)
	w.open(`"type":"message","role":"assistant"`)
	w.member("model", model)
	w.open(`"content":[],"stop_reason":null,"stop_sequence":null,"usage":`)
	w.value(messageUsage(&dialect.Usage{})) // it is told at the end
	w.shut("}")
	m.event("message_start", `,"message":`+string(w.b))
}

func (m *messageEvents) text(s []byte) {
	if m.open != "text" {
		m.begin("text", `{"type":"text","text":""}`)
	}
	m.delta(`{"type":"text_delta","text":` + string(s) + `}`)
}

func (m *messageEvents) call(id, name []byte) {
	m.calls = true
	m.begin("tool_use", `{"type":"tool_use","id":`+string(id)+`,"name":`+string(name)+`,"input":{}}`)
}

func (m *messageEvents) arguments(s []byte) {
	m.delta(`{"type":"input_json_delta","partial_json":` + string(s) + `}`)
}

func (m *messageEvents) begin(kind, block string) {
	m.shut()
	m.open = kind
	m.blocks++
	m.event("content_block_start", m.index()+`,"content_block":`+block)
}

func (m *messageEvents) delta(d string) { m.event("content_block_delta", m.index()+`,"delta":`+d) }

// shut ends the block that is open.
func (m *messageEvents) shut() {
	if m.open != "" {
		m.event("content_block_stop", m.index())
		m.open = ""
	}
}

func (m *messageEvents) index() string { return `,"index":` + strconv.Itoa(m.blocks-1) }

func (m *messageEvents) end(r reason, u *dialect.Usage) error {
	m.shut()
	if m.calls && r == ended {
		r = called // OpenAI says "stop" if it had to call
	}
	m.event("message_delta", `,"delta":{"stop_reason":"`+messageReasons[r]+`","stop_sequence":null},"usage":`+string(messageUsage(u)))
	m.event("message_stop", "")
	return nil
}
