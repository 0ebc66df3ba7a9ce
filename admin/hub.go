package admin

import "sync"

// A hub gives each second's event to the pages that are open. The event is made once
// and shared; a page that is behind misses seconds rather than holding up the others.
type hub struct {
	max int

	mu     sync.Mutex
	pages  map[chan []byte]bool
	seq    uint64 // of the newest event
	recent uint64 // of the newest recent decision that was sent
	closed bool
}

// join adds a page and returns its events and what to call when it has gone. It is
// false if as many are open as may be, or the hub is closed.
func (h *hub) join() (events <-chan []byte, leave func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.pages) >= h.max {
		return nil, nil, false
	}
	if h.pages == nil {
		h.pages = map[chan []byte]bool{}
	}
	c := make(chan []byte, 2)
	h.pages[c] = true
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.pages, c)
	}, true
}

// send makes the next event if somebody is there to see it. encode gets the event's
// number and the last recent decision that was sent, and returns the new one.
func (h *hub) send(encode func(seq, recent uint64) ([]byte, uint64)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pages) == 0 {
		return
	}
	var event []byte
	h.seq++
	event, h.recent = encode(h.seq, h.recent)
	for c := range h.pages {
		select {
		case c <- event:
		default:
		}
	}
}

// close ends all streams, so that a server can shut down.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.pages {
		close(c)
	}
	clear(h.pages)
}
