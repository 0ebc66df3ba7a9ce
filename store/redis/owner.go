package redis

import (
	"context"
	_ "embed"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/ledger"
)

// What is here gives back the slots of processes that have died.
//
// Every Store has a number of its own, an owner, which stands in each record that it keeps
// of slots taken without an ID. In the hash sluice:{processes} it counts its rounds, one
// every sixth of Options.Silence. Each Store looks on: an owner whose count has
// stood still for six rounds of the onlooker's own is dead, and what it held is given back
// by the Void that undoes a lost Take: once, whoever sends it and how often.
//
// No clock is compared, neither the server's nor a process's: an onlooker that was not
// answered in between begins to look anew. So nobody is taken for dead because the server
// stood still, or the machine did. What an owner holds that has been cut off from the
// server for longer is given to others, although its calls may go on; it is told so. Of
// admissions with an ID nothing is ever given back by anybody but who knows the ID.

const (
	still     = 6               // rounds that a count must stand still
	roundWait = 5 * time.Second // that a round may take; a long sweep goes on in the next
)

//go:embed owner.lua
var ownerScript string

// forgetScript drops an owner, or has it begin to count anew if something was found, unless it
// has counted on.
const forgetScript = `if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] == '0' then return redis.call('HDEL', KEYS[1], ARGV[1]) end
return redis.call('HSET', KEYS[1], ARGV[1], 0)`

// An owner is this process, and what it has seen of the others. Only the rounds use it.
type owner struct {
	id     uint64
	name   string // the id as it stands in the hash
	rounds int64  // that have been counted in the server
	others map[string]sighting

	find, forget script
}

// A sighting is the count of another owner, and for how many rounds it has been that.
type sighting struct {
	count  string
	rounds int
}

func newOwner() owner {
	id := rand.Uint64() | 1 // never zero, as the fingerprint of a call may be
	return owner{id: id, name: ownerName(id), find: newScript(withoutComments(ownerScript)), forget: newScript(forgetScript)}
}

// ownerName is the owner's number as it stands in records, in hexadecimal.
func ownerName(id uint64) string { return hex.EncodeToString(append64(nil, int64(id))) }

func (s *Store) processesKey() string { return s.prefix + "{processes}" }

// processesNode is the server that has the hash.
func (s *Store) processesNode() *node { return s.nodes.of(s.slotOf([]string{s.processesKey()})) }

// round tells the others that this process lives, and gives back what the dead hold.
func (s *Store) round(ctx context.Context) error {
	counts, err := s.count(ctx)
	if err != nil {
		s.owner.others = nil
		return err
	}
	if was := s.owner.rounds; was > 0 && s.owner.mine(counts) != was+1 {
		s.log.Warn("redis: the server has lost its books, or this process was not heard of for too long; slots of running calls may be taken by others")
	}
	s.owner.rounds = s.owner.mine(counts)
	for name, count := range s.owner.dead(counts) {
		if err := s.sweep(ctx, name, count); err != nil {
			s.log.Warn("redis: the slots of a process that has died are not given back yet", "error", err)
		}
	}
	return nil
}

// count counts a round of this process and returns the counts of all. In a Cluster that
// changes it looks for them until ctx ends.
func (s *Store) count(ctx context.Context) (counts map[string]string, err error) {
	for n := s.processesNode(); ; {
		counts, err = s.countAt(ctx, n)
		e, ok := rueidis.IsRedisErr(err)
		if !ok || !s.nodes.cluster {
			return counts, err
		}
		addr, moved := e.IsMoved()
		if !moved || ctx.Err() != nil {
			return counts, err
		}
		n = s.nodes.moved(s.slotOf([]string{s.processesKey()}), addr)
	}
}

// countAt does so at a node. It uses a connection of its own, on which no decision is ahead
// of it.
func (s *Store) countAt(ctx context.Context, n *node) (counts map[string]string, err error) {
	client, err := n.connected(ctx)
	if err != nil {
		return nil, err
	}
	err = client.Dedicated(func(c rueidis.DedicatedClient) error {
		said := c.DoMulti(ctx, c.B().Hincrby().Key(s.processesKey()).Field(s.owner.name).Increment(1).Build(),
			c.B().Hgetall().Key(s.processesKey()).Build())
		if err := said[0].Error(); err != nil {
			return err
		}
		counts, err = said[1].AsStrMap()
		return err
	})
	return counts, err
}

// mine returns how many rounds of this process have been counted.
func (o *owner) mine(counts map[string]string) int64 {
	n, _ := strconv.ParseInt(counts[o.name], 10, 64) // zero if the hash is gone
	return n
}

// dead notes the counts of the others, and returns those that have stood still for too
// long.
func (o *owner) dead(counts map[string]string) map[string]string {
	seen, dead := make(map[string]sighting, len(counts)), make(map[string]string)
	for name, count := range counts {
		at := sighting{count: count}
		if before, ok := o.others[name]; ok && before.count == count {
			at.rounds = before.rounds + 1
		}
		seen[name] = at
		if at.rounds >= still && name != o.name {
			dead[name] = count
		}
	}
	o.others = seen
	return dead
}

// sweep gives back what a dead owner holds. If that is cut short another round goes on with
// it. The owner is looked for once more before it is forgotten: a key that moved between two
// servers meanwhile has been missed, and a command may have arrived late. And if it lives after
// all it sees by its count what has become of its slots.
func (s *Store) sweep(ctx context.Context, name, count string) error {
	id, err := hex.DecodeString(name)
	if err != nil || len(id) != 8 {
		return errAnswer
	}
	given := 0
	for _, n := range s.nodes.masters() {
		for cursor := first; ; {
			var found []string
			if cursor, found, err = s.heldBy(ctx, n, string(id), cursor); err != nil {
				return err
			}
			if err := s.endAll(ctx, found); err != nil {
				return err
			}
			if given += len(found); cursor == first {
				break
			}
		}
	}
	if given > 0 {
		s.log.Info("redis: gave back the slots of a process that has died", "calls", given)
	}
	_, err = s.run(ctx, s.owner.forget, []string{s.processesKey()}, []string{name, count, strconv.Itoa(given)})
	return err
}

// heldBy returns the keys of an owner's records in one portion of a server's keys, and
// where the next begins.
func (s *Store) heldBy(ctx context.Context, n *node, id, cursor string) (next string, keys []string, err error) {
	word, rootLen := strings.Repeat("?", wordLen), 0
	pattern := s.prefix + "{" + word + "}" + word + word
	if s.nodes.cluster {
		pattern, rootLen = s.prefix+"{"+word+"*", len(s.recordKey(ledger.ID{}))
	}
	own := rueidis.BinaryString(append64(nil, ownRecord))
	said, err := n.run(ctx, s.owner.find, nil, []string{cursor, pattern, id, own, strconv.Itoa(rootLen)}, false)
	if err != nil {
		return "", nil, err
	}
	keys, err = said.AsStrSlice()
	if err == nil && len(keys) == 0 {
		err = errAnswer
	}
	if err != nil {
		return "", nil, err
	}
	return keys[0], keys[1:], nil
}

// ownRecord stands in a record in place of its end, if it is a Store's own.
const ownRecord = -1

// endAll gives back what the records of these keys hold, and finishes the roots among them.
func (s *Store) endAll(ctx context.Context, keys []string) error {
	blob := appendCommand(nil, &ledger.Command{Op: ledger.Void}, nil, flagRecord|flagBrief)
	var all []*request
	for _, key := range keys {
		if id, ok := s.parseRecordKey(key); ok {
			if err := s.finish(ctx, id); err != nil {
				return err
			}
			continue
		}
		all = append(all, &request{keys: []string{key}, parts: []part{{blob: blob, keys: 1}}})
	}
	for batch := range s.batches(all) {
		if _, err := s.call(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// leave forgets this process, which holds nothing any more. If the server does not hear of
// it, the others will.
func (s *Store) leave(ctx context.Context) {
	if s.owner.rounds > 0 {
		if c, err := s.processesNode().connected(ctx); err == nil {
			c.Do(ctx, c.B().Hdel().Key(s.processesKey()).Field(s.owner.name).Build())
		}
	}
}

// startRounds makes a round every so often, until stopRounds.
func (s *Store) startRounds(every time.Duration) {
	ctx, quit := context.WithCancel(context.Background())
	s.quit = quit
	s.looking.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			bounded, cancel := context.WithTimeout(ctx, roundWait)
			err := s.round(bounded)
			if s.processesNode().note(err); err == nil {
				s.lookAround(bounded)
			}
			cancel()
		}
	})
}

func (s *Store) stopRounds() {
	if s.quit != nil {
		s.quit()
	}
	s.looking.Wait()
}
