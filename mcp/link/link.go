// Package link is the broker's side of a connection to a provider: what can be sent over
// it, and who hears what comes back. Its sub-packages are the kinds of connections; this
// one holds what they share: a sender with a bounded queue ([Outbox]), a reader of lines
// ([Lines]), and the way from a frame to whoever waits for it ([Receiver]).
//
// A link moves frames and knows little of what they mean. Ids, handshakes, deadlines and
// who may say what are the broker's.
package link

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// ErrNotSent says that a message provably never left: the provider has seen nothing of it.
var ErrNotSent = errors.New("not sent")

// ErrClosed is the error of a link that the broker has closed itself.
var ErrClosed = errors.New("mcp/link: the broker has closed the connection")

// MaxFrame is what a frame may have in bytes, in both directions, where nothing is configured.
const MaxFrame = 4 << 20

// An Inbox hears what a provider sends over one link. Each link has its own, so that
// nothing an older connection of the same provider says can be taken for the newer one's.
//
// Messages that come on one stream are told one at a time, in order; a link that is not
// Shared has several streams. Lost and Bad may come meanwhile, Down comes alone. The
// methods return fast and never wait for the link, but for one: Message may wait while many
// answers to the provider's own requests have not left, each of which is given up in a second.
type Inbox interface {
	// Message takes a message. Of is our request on whose stream it came; the zero ID if
	// the link cannot tell. It is never a batch: its messages are told one by one.
	Message(m *jsonrpc.Message, of jsonrpc.ID)

	// Lost says that no answer to our request will come over this link. The zero ID with
	// f.SessionGone is about no request: the server has forgotten the session.
	Lost(id jsonrpc.ID, f Failure)

	// Bad says that a frame was none, or could not be used. The link lives.
	Bad(err error)

	// Down says that the link has ended, once, and nothing follows. Whatever was sent and
	// not answered is lost with it. Err is never nil: it is [ErrClosed] after Close.
	Down(err error)
}

// A Failure is why a request gets no answer. Its text names no secret and no more of a
// URL than scheme and host, since some providers are given their key in a path.
type Failure struct {
	Err error

	// NotRun is proof that the provider did not execute the request. It may be sent again.
	NotRun bool

	// Stopped is proof that the provider is done with the request: it did answer, but with
	// something that cannot be used.
	Stopped bool

	// SessionGone says that the server does not know the session any more.
	SessionGone bool

	// Status is the HTTP status that the server answered with, 0 if there was none.
	Status int

	// RetryAfter is how long the server wants to be left alone, 0 if it did not say.
	RetryAfter time.Duration
}

// Error returns the text of f.Err.
func (f Failure) Error() string { return f.Err.Error() }

// Unwrap returns f.Err.
func (f Failure) Unwrap() error { return f.Err }

// An Outgoing is a message on its way to a provider. It is never a batch: no provider has
// to take one, and some execute what they should refuse.
type Outgoing struct {
	*jsonrpc.Message

	// Version is the revision spoken on this link; empty before the handshake.
	Version string

	// Header holds fields Mcp-Param-* for a transport that has headers. Others are not sent.
	Header http.Header
}

// A Link is a connection to a provider. Its methods may be called by any goroutine, also
// out of its Inbox and under locks that the Inbox takes: none of them calls the Inbox
// before it returns.
type Link interface {
	// Send sends a message, and returns when it is on its way. It waits for room in a bounded
	// queue no longer than ctx allows. An error that wraps [ErrNotSent] is proof that nothing
	// left. After nil, a request ends with its answer, with Lost, or with Down.
	Send(ctx context.Context, m Outgoing) error

	// Cancel tells the provider that a request is no longer wanted: by a notification with
	// our id, or, where the protocol wants it so, by closing the request's stream. It does not
	// wait. A link that has a stream for each request gives it up a while later, even if the
	// provider never answers.
	Cancel(id jsonrpc.ID, reason string)

	// Shared reports whether all messages come on one stream. Otherwise those of a request
	// come on a stream of its own.
	Shared() bool

	// Close begins to end the link and returns; Down follows. A second Close does nothing.
	Close() error
}

// A Prober is a link that can find out whether the other end is there.
type Prober interface {
	// Alive reports whether the provider answers before ctx ends.
	Alive(ctx context.Context) bool
}

// A Dialer makes links to one provider.
type Dialer interface {
	// Dial connects, within ctx. What the link receives goes to in, possibly before Dial has
	// returned. After an error in hears nothing.
	Dial(ctx context.Context, in Inbox) (Link, error)

	// String names the provider for people: a program, or scheme and host.
	String() string
}

// Cancelled makes the notification that tells a provider that a request is no longer wanted.
func Cancelled(id jsonrpc.ID, reason string) *jsonrpc.Message {
	return jsonrpc.NewNotification("notifications/cancelled", struct {
		RequestID json.RawMessage `json:"requestId"`
		Reason    string          `json:"reason,omitempty"`
	}{id.Raw(), reason})
}
