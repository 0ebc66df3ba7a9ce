package provider

import (
	"context"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// A Handler answers what a broker sends, frame by frame. [Server] is one for tools.
type Handler interface {
	// Handle takes a message and returns the answer to a request. Nil is no answer, as to a
	// notification; a request that is never answered keeps what it holds at the broker.
	//
	// Each request has a goroutine of its own, and a context that ends when the broker has
	// cancelled the request or the connection is lost. An answer is sent all the same: it tells
	// the broker that the work has stopped. Notifications, and answers to requests that the
	// handler has sent, come one at a time in order, and have to return fast.
	//
	// The context knows the Provider, also before Dial has returned it; see [FromContext].
	//
	// Send sends over the connection that the message came on. It may be kept, and used by
	// several goroutines.
	Handle(ctx context.Context, m *jsonrpc.Message, send func(*jsonrpc.Message) error) *jsonrpc.Message
}

type providerKey struct{}

// FromContext returns the Provider that a request came to, by the context that [Handler] and
// the tools of a [Server] get. It is nil if the context is no such.
func FromContext(ctx context.Context) *Provider {
	p, _ := ctx.Value(providerKey{}).(*Provider)
	return p
}
