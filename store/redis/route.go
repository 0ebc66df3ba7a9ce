package redis

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/ledger"
)

// Which server a script call goes to. A node of a Cluster says so if it is not the one, and
// has done nothing then; nothing else is sent a second time.

// slot returns the slot of a request, all of which is in one.
func (s *Store) slot(r *request) uint16 {
	if s.nodes.cluster && r.quick() {
		return slotOfGroup(r.steps[0].key.Group)
	}
	return s.slotOf(r.keys)
}

// slotOfCommands returns the slot of the cells of commands, which are all in one.
func (s *Store) slotOfCommands(cmds []ledger.Command) uint16 {
	for i := range cmds {
		if steps := cmds[i].Steps; s.nodes.cluster && len(steps) > 0 {
			return slotOfGroup(steps[0].Key.Group)
		}
	}
	return 0
}

// slotOf returns the slot of keys, which are all in one. A single server has slot 0 alone.
func (s *Store) slotOf(keys []string) uint16 {
	if !s.nodes.cluster || len(keys) == 0 {
		return 0
	}
	return slotOf(keys[0])
}

// run runs a script where the keys are. In a Cluster that changes it looks for them until
// ctx ends.
func (s *Store) run(ctx context.Context, what script, keys, args []string) (rueidis.RedisMessage, error) {
	slot := s.slotOf(keys)
	at, asking, pause := s.nodes.of(slot), false, time.Millisecond
	for {
		said, err := at.run(ctx, what, keys, args, asking)
		e, ok := rueidis.IsRedisErr(err)
		if !ok || !s.nodes.cluster {
			return said, err
		}
		moved, isMoved := e.IsMoved()
		asked, isAsk := e.IsAsk()
		switch {
		case isMoved:
			at, asking = s.nodes.moved(slot, moved), false
		case isAsk:
			at, asking = s.nodes.at(asked), true
		case e.IsClusterDown(): // a master is being replaced
			if !wait(ctx, pause) {
				return said, err
			}
			at, asking, pause = s.nodes.of(slot), false, 2*pause
		default:
			return said, err
		}
		if at.breaker.IsOpen() {
			return said, ErrUnavailable
		}
	}
}

// wait waits for d and reports whether ctx has not ended.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// run runs a script at a node, to which it sends the text if the node does not know it.
// asking is for a node that takes a slot over.
func (n *node) run(ctx context.Context, what script, keys, args []string, asking bool) (said rueidis.RedisMessage, err error) {
	c, err := n.connected(ctx)
	if err == nil {
		count := int64(len(keys))
		said, err = send(ctx, c, c.B().Evalsha().Sha1(what.sha).Numkeys(count).Key(keys...).Arg(args...).Build(), asking)
		if e, ok := rueidis.IsRedisErr(err); ok && e.IsNoScript() {
			said, err = send(ctx, c, c.B().Eval().Script(what.text).Numkeys(count).Key(keys...).Arg(args...).Build(), asking)
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		n.note(ErrWait)
	case !errors.Is(err, context.Canceled):
		n.note(err)
	}
	return said, err
}

func send(ctx context.Context, c rueidis.Client, cmd rueidis.Completed, asking bool) (rueidis.RedisMessage, error) {
	if !asking {
		return c.Do(ctx, cmd).ToMessage()
	}
	return c.DoMulti(ctx, c.B().Asking().Build(), cmd)[1].ToMessage()
}

func isTryAgain(err error) bool {
	e, ok := rueidis.IsRedisErr(err)
	return ok && e.IsTryAgain()
}

// probeAll asks every server whether it works. Of a Cluster one that does not answer is
// left to its breaker, as long as another does.
func (s *Store) probeAll(ctx context.Context) (down error) {
	answers := 0
	for _, n := range s.nodes.masters() {
		switch err := s.probe(ctx, n); {
		case err == nil:
			answers++
		case !isDown(err):
			return err
		default:
			down = err
		}
	}
	if answers > 0 {
		return nil
	}
	return down
}

// probe asks whether a server carries out scripts that write. A node in whose place another
// serves has nothing to carry out.
func (s *Store) probe(ctx context.Context, n *node) error {
	if !s.nodes.cluster {
		return s.mark(ctx, n, s.recordKey(anyID()))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.nodes.refresh(ctx)
	go func() { // n may be silent, and another take its place meanwhile
		for wait(ctx, probeEvery) && s.nodes.serves(n) {
			s.nodes.refresh(ctx)
		}
		cancel()
	}()
	key := s.recordKey(anyID())
	for s.nodes.serves(n) && s.nodes.of(slotOf(key)) != n {
		key = s.recordKey(anyID())
	}
	if err := s.mark(ctx, n, key); s.nodes.serves(n) {
		return err
	}
	return nil
}

// mark has a server write a mark that nobody needs.
func (s *Store) mark(ctx context.Context, n *node, key string) error {
	blob := appendCommand(nil, &ledger.Command{Op: ledger.Release}, nil, flagRecord|flagOnce)
	said, err := n.run(ctx, s.script, []string{key}, []string{rueidis.BinaryString(blob)}, false)
	if err != nil {
		if e, ok := rueidis.IsRedisErr(err); ok && strings.Contains(e.Error(), "READONLY") {
			n.reconnect(ctx)
			s.channel.renew()
		}
		return err
	}
	text, err := said.ToString()
	if err != nil {
		return err
	}
	return split([]*request{{parts: []part{{blob: blob}}}}, text)
}
