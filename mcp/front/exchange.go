package front

import (
	"net/http"

	"github.com/sluicegate/sluice/mcp/policy"
)

// A sender is who sends a message, and what came with it.
type sender struct {
	who         *policy.Caller
	correlation string
	params      http.Header
}

// Caller is who sends the message, as the credentials of its own request prove. The session
// belongs to the same caller, but may be older than what this one may do now.
func (s *sender) Caller() *policy.Caller { return s.who }

// Correlation is the sender's own id for what it does, empty if it gave none.
func (s *sender) Correlation() string { return s.correlation }

// Params are the headers that repeat arguments of a tool, nil on transports without them.
func (s *sender) Params() http.Header { return s.params }

// An exchange is the [mcp.Exchange] of a message that has a stream to itself.
type exchange struct {
	sender
	out   *stream
	after func() // called when it has been answered; nil is nothing
}

func (v *visit) sender() sender { return sender{who: v.who, correlation: v.correlated()} }

// Notify gives the client a frame before the answer.
func (x *exchange) Notify(frame []byte) { x.out.tell(frame) }

// Answer gives it the answer, which is the last.
func (x *exchange) Answer(frame []byte, status int) {
	x.out.end(frame, status)
	if x.after != nil {
		x.after()
	}
}

// A line is the [mcp.Exchange] of a message whose answer goes out on the one stream that a
// client has for everything.
type line struct {
	sender
	out     *stream
	flights *flights // nil: it was not counted
	load    load     // of the message
	denial  *denial  // nil: an answer is an answer
}

// Notify gives the client a frame before the answer.
func (x *line) Notify(frame []byte) { x.out.tell(frame) }

// Answer gives it the answer.
func (x *line) Answer(frame []byte, _ int) {
	if taken := x.denial.take(frame); frame != nil && !taken {
		x.out.append(frame)
	}
	if x.flights != nil {
		x.flights.leave()
	}
	x.load.release()
}
