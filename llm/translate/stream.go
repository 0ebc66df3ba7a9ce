package translate

import (
	"bytes"
	"encoding/json"

	"github.com/sluicegate/sluice/llm/dialect"
)

// A Stream translates a provider's stream, event by event. It holds what it needs of the
// event that it reads, and no more. It is not safe for concurrent use.
type Stream struct {
	meter *dialect.Meter
	from  source
	out   *[]byte // where the listener of from writes
}

// A source reads events of one dialect.
type source interface {
	// read reads an event, which is an object. u is what has been used so far.
	read(e dialect.Event, u *dialect.Usage) error
	// end is called when nothing more comes, and may be called twice.
	end(u *dialect.Usage) error
}

// NewStream returns a Stream for the answer to t.
func (t *Translation) NewStream() *Stream {
	s := &Stream{meter: t.Route.NewMeter(nil)}
	if t.Route.Operation == dialect.Messages {
		to := &chatChunks{created: t.created, usage: t.usage}
		s.from, s.out = &eventReader{to: to}, &to.out
		return s
	}
	to := &messageEvents{}
	s.from, s.out = &chunkReader{chatReader: chatReader{to: to}}, &to.out
	return s
}

// Add appends to b what an event of the provider's stream is in the client's dialect, which
// may be nothing. An event by which the provider fails is no part of an answer; see
// [Translation.Fault] for those. After an error, which is a [*Loss], the answer has to be
// broken off.
func (s *Stream) Add(b []byte, e dialect.Event) ([]byte, error) {
	if e.Part {
		return b, lose("has an event that is too large")
	}
	s.meter.Read(e)
	switch {
	case len(e.Data) == 0: // a comment
		return b, nil
	case string(e.Data) == "[DONE]":
		return s.End(b)
	case !json.Valid(e.Data):
		return b, lose("has an event that is no JSON")
	}
	u, _ := s.meter.Usage()
	*s.out = b
	err := s.from.read(e, &u)
	return *s.out, err
}

// End appends what ends the client's stream, if that is not there: some providers say why an
// answer ended, and then nothing more. It is an error if they did not say even that.
func (s *Stream) End(b []byte) ([]byte, error) {
	u, _ := s.meter.Usage()
	*s.out = b
	err := s.from.end(&u)
	return *s.out, err
}

var errUntold = lose("ends without a reason")

// A chunkReader reads the chunks of OpenAI's chat. Usage comes after the reason, so that the
// end is where nothing more comes.
type chunkReader struct {
	chatReader
	done bool
}

func (r *chunkReader) read(e dialect.Event, _ *dialect.Usage) error {
	if r.done {
		return nil
	}
	return r.envelope(e.Data, func(v []byte) error { return r.choice(v, "delta") })
}

func (r *chunkReader) end(u *dialect.Usage) error {
	switch {
	case r.done:
		return nil
	case r.why == untold:
		return errUntold
	}
	r.done = true
	return r.to.end(r.reason(), u)
}

// An eventReader reads the events of Anthropic's messages.
type eventReader struct {
	to    listener
	begun bool
	block *messageBlock // that has begun
	index string
	why   reason
	done  bool
}

func (r *eventReader) read(e dialect.Event, u *dialect.Usage) error {
	kind := kindOf(e.Data)
	if kind == "" {
		kind = e.Name
	}
	switch {
	case r.done || kind == "ping":
		return nil
	case r.begun == (kind == "message_start"):
		return lose("begins twice, or not at all")
	}
	switch kind {
	case "message_start":
		return r.start(member(e.Data, "message"))
	case "content_block_start":
		r.block, r.index = &messageBlock{}, string(member(e.Data, "index"))
		if err := r.block.read(member(e.Data, "content_block")); err != nil {
			return within("content_block", err)
		}
		r.block.start(r.to)
		r.block.input = bytes.Clone(r.block.input) // the event will have gone
	case "content_block_delta":
		if r.block == nil || string(member(e.Data, "index")) != r.index {
			return lose("has a piece of a block that is not open")
		}
		return within("delta", r.delta(member(e.Data, "delta")))
	case "content_block_stop":
		if r.block != nil {
			r.block.end(r.to)
		}
		r.block = nil
	case "message_delta":
		if why := member(member(e.Data, "delta"), "stop_reason"); why != nil {
			if r.why = stopReasons[text(why)]; r.why == untold {
				return within("stop_reason", errForeign)
			}
		}
	case "message_stop":
		return r.stop(u)
	}
	return nil // what is not of the answer
}

// start reads how the message begins.
func (r *eventReader) start(message []byte) error {
	r.begun = true
	id, model := []byte(`""`), []byte(`""`)
	err := each(message, func(name string, v []byte) error {
		switch name {
		case "id":
			return literal(&id, v)
		case "model":
			return literal(&model, v)
		}
		return nil
	})
	r.to.start(id, model)
	return err
}

// delta reads a piece of the open block.
func (r *eventReader) delta(v []byte) error {
	switch kindOf(v) {
	case "text_delta":
		if s := member(v, "text"); len(s) > 2 && isString(s) {
			r.to.text(s)
		}
	case "input_json_delta":
		if s := member(v, "partial_json"); len(s) > 2 && isString(s) && r.block.kind == "tool_use" {
			r.block.said = true
			r.to.arguments(s)
		}
	case "thinking_delta", "signature_delta":
	default:
		return errForeign
	}
	return nil
}

// stop is called by the last event.
func (r *eventReader) stop(u *dialect.Usage) error {
	switch {
	case r.done:
		return nil
	case r.why == untold:
		return errUntold
	}
	r.done = true
	return r.to.end(r.why, u)
}

func (r *eventReader) end(*dialect.Usage) error {
	if !r.done {
		return errUntold
	}
	return nil
}
