package redis

import (
	"context"
	"encoding/binary"
	"iter"
	"strings"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// pattern is what the keys of the cells of a group look like, or of all.
func (s *Store) pattern(group uint64, all bool) string {
	word := strings.Repeat("?", wordLen)
	if all {
		return s.prefix + "{" + word + "}" + word
	}
	return string(appendTag([]byte(s.prefix), group)) + word
}

// first is where the first portion begins, and the end of the last.
const first = "0"

// A page is a portion of the server's cells.
type page struct {
	now   limit.Micros
	next  string // where the next portion begins; first if there is none
	cells int
	list  reader
}

// visit runs op, opScan or Reset, on a portion of the cells. The server looks at two
// thousand keys, and serves others before the next portion.
func (s *Store) visit(ctx context.Context, n *node, op byte, cursor, pattern string) (page, error) {
	said, err := n.run(ctx, s.script, nil, []string{string([]byte{op}), cursor, pattern}, false)
	if err != nil {
		return page{}, err
	}
	text, err := said.ToString()
	if err != nil {
		return page{}, err
	}
	p := page{list: reader{rest: []byte(text)}}
	p.now = limit.Micros(read64(p.list.take(8)))
	head := p.list.take(2 + 4)
	p.cells = int(binary.LittleEndian.Uint32(head[2:]))
	length := int(binary.LittleEndian.Uint16(head))
	p.next = string(p.list.take(length)[:length])
	if p.list.bad {
		return page{}, errAnswer
	}
	return p, nil
}

// pages runs op on the cells of a group, or of all groups, until see says that it is
// enough. A Cluster's nodes are visited one after the other; cells that move between them
// meanwhile may be missed.
func (s *Store) pages(ctx context.Context, op byte, group uint64, all bool, see func(page) bool) error {
	visited := s.nodes.masters()
	if !all && s.nodes.cluster {
		visited = []*node{s.nodes.of(slotOfGroup(group))}
	}
	pattern := s.pattern(group, all)
	for _, n := range visited {
		for cursor := first; ; {
			p, err := s.visit(ctx, n, op, cursor, pattern)
			if err != nil {
				return err
			}
			if cursor = p.next; !see(p) {
				return nil
			}
			if cursor == first {
				break
			}
		}
	}
	return nil
}

// Scan implements sluice.Store. It goes through all keys of the server, even if the group
// has few, in portions between which the server serves others.
func (s *Store) Scan(ctx context.Context, group uint64) iter.Seq2[ledger.Entry, error] {
	return func(yield func(ledger.Entry, error) bool) {
		seen := make(map[ledger.Key]bool)
		err := s.pages(ctx, opScan, group, group == 0, func(p page) bool {
			for range p.cells {
				e, err := p.entry()
				if err == nil && seen[e.Key] { // SCAN may name a key twice
					continue
				}
				seen[e.Key] = true
				if !yield(e, err) || err != nil {
					return false
				}
			}
			return true
		})
		if err != nil {
			yield(ledger.Entry{}, err)
		}
	}
}

func (p *page) entry() (ledger.Entry, error) {
	key, err := parseName(string(p.list.take(nameLen)[:nameLen]))
	l := readLimit(p.list.take(markLen))
	e := ledger.Entry{Key: key, Limit: l, Level: readLevel(p.list.take(levelLen), l, p.now)}
	if p.list.bad || err != nil {
		return e, errAnswer
	}
	return e, nil
}

// reset makes cells full, a portion at a time.
func (s *Store) reset(ctx context.Context, cmd *ledger.Command, res *ledger.Result) error {
	if s.closed.Load() {
		return ErrClosed
	}
	res.Start(0)
	return s.pages(ctx, byte(ledger.Reset), cmd.Group, cmd.All, func(p page) bool {
		res.At = p.now
		res.Count += p.cells
		return true
	})
}
