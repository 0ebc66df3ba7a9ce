package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/breaker"
)

// A node is a server: the only one, or one of a Cluster. It connects when it is needed.
type node struct {
	addr    string // empty of the only one, which a Sentinel may move
	client  atomic.Pointer[rueidis.Client]
	dialing chan struct{} // holds a token while somebody connects
	dial    func(ctx context.Context) (rueidis.Client, error)
	breaker breaker.Breaker
	closed  atomic.Bool
}

// connected returns a client that has spoken to the node.
func (n *node) connected(ctx context.Context) (rueidis.Client, error) {
	if c := n.client.Load(); c != nil {
		return *c, nil
	}
	select {
	case n.dialing <- struct{}{}:
		defer func() { <-n.dialing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c := n.client.Load(); c != nil {
		return *c, nil
	}
	c, err := n.dial(ctx)
	if err != nil {
		return nil, err
	}
	n.client.Store(&c)
	if n.closed.Load() {
		c.Close()
	}
	return c, nil
}

// reconnect connects anew, and asks for the address anew: a master that has become a
// replica keeps its connections, and says no for ever.
func (n *node) reconnect(ctx context.Context) {
	if c, err := n.dial(ctx); err == nil {
		if before := n.client.Swap(&c); before != nil {
			(*before).Close()
		}
	}
}

func (n *node) close() {
	n.closed.Store(true)
	n.breaker.Stop()
	if c := n.client.Load(); c != nil {
		(*c).Close()
	}
}

// nodes are the servers of a Store and which slot each of them serves. A single server
// has one slot for all keys; what is said of slots below is about a Cluster.
type nodes struct {
	cluster bool
	// open makes a node that has not been connected to.
	open  func(addr string) *node
	seeds []string // addresses of the URI
	slots []atomic.Pointer[node]

	asking sync.Mutex // one at a time asks which slots are where
	mu     sync.Mutex
	byAddr map[string]*node // replicas too, which are asked for slots alone
	closed bool
}

// of returns the node that serves a slot.
func (n *nodes) of(slot uint16) *node { return n.slots[slot].Load() }

// at returns the node of an address.
func (n *nodes) at(addr string) *node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.atLocked(addr)
}

func (n *nodes) atLocked(addr string) *node {
	one := n.byAddr[addr]
	if one == nil {
		one = n.open(addr)
		one.closed.Store(n.closed) // a call that was under way may be the last to name it
		n.byAddr[addr] = one
	}
	return one
}

// moved notes that a slot is served at addr, as the node that was asked says.
func (n *nodes) moved(slot uint16, addr string) *node {
	one := n.at(addr)
	n.slots[slot].Store(one)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), probeWait)
		defer cancel()
		n.refresh(ctx) // more slots may have moved
	}()
	return one
}

// masters are the nodes that serve slots.
func (n *nodes) masters() []*node {
	var list []*node
	seen := make(map[*node]bool)
	for i := range n.slots {
		if one := n.slots[i].Load(); one != nil && !seen[one] {
			seen[one], list = true, append(list, one)
		}
	}
	return list
}

// any returns a node that answers, as far as is known.
func (n *nodes) any() *node {
	list := n.masters()
	for _, one := range list {
		if !one.breaker.IsOpen() {
			return one
		}
	}
	return list[0]
}

// failure is why one of them is not asked, nil if all are.
func (n *nodes) failure() error {
	for _, one := range n.masters() {
		if err := one.breaker.Failure(); err != nil {
			return err
		}
	}
	return nil
}

// serves reports whether one serves any slot.
func (n *nodes) serves(one *node) bool {
	for i := range n.slots {
		if n.slots[i].Load() == one {
			return true
		}
	}
	return false
}

// all are all nodes that are known.
func (n *nodes) all() []*node {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]*node, 0, len(n.byAddr))
	for _, one := range n.byAddr {
		list = append(list, one)
	}
	return list
}

func (n *nodes) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	for _, one := range n.all() {
		one.close()
	}
}

// maxAsked is how many nodes are asked at a time which slots are where.
const maxAsked = 8

// refresh asks which slots are where: the nodes that are known, and if none of them answers
// those of the URI, whose names may lead to others by now.
func (n *nodes) refresh(ctx context.Context) error {
	if !n.asking.TryLock() {
		return nil // somebody asks already
	}
	defer n.asking.Unlock()
	var known []*node
	for _, one := range n.all() {
		if len(known) < maxAsked && !one.breaker.IsOpen() {
			known = append(known, one)
		}
	}
	found, err := firstShards(ctx, known)
	if err != nil && ctx.Err() == nil {
		var seeds []*node
		for _, addr := range n.seeds {
			seeds = append(seeds, n.open(addr))
		}
		found, err = firstShards(ctx, seeds)
		for _, one := range seeds {
			time.AfterFunc(closeWait, one.close) // it may be connecting
		}
	}
	if err != nil {
		return err
	}
	n.take(found)
	return nil
}

// firstShards asks all of list which slots are where, and returns what is answered first.
func firstShards(ctx context.Context, list []*node) (found []shard, err error) {
	type answer struct {
		found []shard
		err   error
	}
	answers := make(chan answer, len(list))
	for _, one := range list {
		go func() {
			found, err := one.shards(ctx)
			if err == nil && len(found) == 0 {
				err = errors.New("redis: the Cluster serves no slots yet; create it with redis-cli --cluster create")
			}
			answers <- answer{found, err}
		}()
	}
	err = errors.New("redis: no node of the Cluster answers")
	for range list {
		one := <-answers
		if err = one.err; err == nil {
			return one.found, nil
		}
	}
	return nil, err
}

// take notes which slots are where, and forgets nodes that have gone.
func (n *nodes) take(found []shard) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	here := make(map[string]bool)
	for _, s := range found {
		for i, addr := range s.addrs {
			here[addr] = true
			one := n.atLocked(addr)
			if i > 0 {
				continue
			}
			for slot := s.first; slot <= s.last; slot++ {
				// Who was asked may not know yet that another has taken a dead node's place.
				if now := n.slots[slot].Load(); !one.breaker.IsOpen() || now.breaker.IsOpen() {
					n.slots[slot].Store(one)
				}
			}
		}
	}
	for addr, one := range n.byAddr {
		if !here[addr] && !n.serves(one) {
			delete(n.byAddr, addr)
			time.AfterFunc(closeWait, one.close) // a call may be under way
		}
	}
}

// A shard is a range of slots and who has them, the master first.
type shard struct {
	first, last int
	addrs       []string
}

// shards asks a node which slots are where.
func (n *node) shards(ctx context.Context) ([]shard, error) {
	c, err := n.connected(ctx)
	if err != nil {
		return nil, err
	}
	list, err := c.Do(ctx, c.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	var found []shard
	for i := range list {
		s, err := readShard(list[i], n.addr)
		if err != nil {
			return nil, err
		}
		found = append(found, s)
	}
	return found, nil
}

// readShard reads a line of CLUSTER SLOTS that the node at asked has said:
// https://redis.io/docs/latest/commands/cluster-slots/
func readShard(line rueidis.RedisMessage, asked string) (s shard, err error) {
	words, err := line.ToArray()
	if err != nil || len(words) < 3 {
		return s, errSlots
	}
	from, err1 := words[0].AsInt64()
	to, err2 := words[1].AsInt64()
	if err1 != nil || err2 != nil || from < 0 || to < from || to >= slots {
		return s, errSlots
	}
	s.first, s.last = int(from), int(to)
	for _, word := range words[2:] {
		about, err := word.ToArray()
		if err != nil || len(about) < 2 {
			return s, errSlots
		}
		host, _ := about[0].ToString() // null is the host that was asked
		port, err := about[1].AsInt64()
		switch {
		case err != nil:
			return s, errSlots
		case host == "?": // it does not know
			continue
		case host == "":
			host, _, _ = net.SplitHostPort(asked)
		}
		s.addrs = append(s.addrs, net.JoinHostPort(host, fmt.Sprint(port)))
	}
	if len(s.addrs) == 0 {
		return s, errSlots
	}
	return s, nil
}

var errSlots = errors.New("redis: the Cluster's list of slots cannot be read")
