package gate

import (
	"net"
	"net/http"
	"sync"
)

// connections counts the open connections of each address, so that one cannot hold all
// that a server has. A trusted proxy's are not counted: many clients are behind it.
type connections struct {
	gate *Gate
	most int // for each address; 0 is no bound

	mu     sync.Mutex
	counts map[string]int
	owners map[net.Conn]string
}

// watch is told of every change by the server. A connection that is taken over is no
// longer the server's; streams have limits of their own.
func (c *connections) watch(conn net.Conn, state http.ConnState) {
	if c.most <= 0 {
		return
	}
	switch state {
	case http.StateNew:
		if c.enter(conn) {
			return
		}
		_ = conn.Close() // the server notices, and tells of it as of any other end
	case http.StateClosed, http.StateHijacked:
		c.leave(conn)
	}
}

// enter counts a connection and reports whether its address may have it.
func (c *connections) enter(conn net.Conn) bool {
	clients := c.gate.current.Load().clients
	peer := clients.Resolve(conn.RemoteAddr().String(), nil)
	if peer.Trusted {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts, c.owners = map[string]int{}, map[net.Conn]string{}
	}
	owner := clients.Identity(peer.Addr)
	c.owners[conn] = owner
	c.counts[owner]++
	return c.counts[owner] <= c.most
}

func (c *connections) leave(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	owner, counted := c.owners[conn]
	if !counted {
		return
	}
	delete(c.owners, conn)
	if c.counts[owner]--; c.counts[owner] == 0 {
		delete(c.counts, owner)
	}
}
