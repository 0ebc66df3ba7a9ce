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

// A page is a portion of what the server has: of its cells, or of its records.
type page struct {
	now   limit.Micros
	next  string // where the next portion begins; first if there is none
	found int
	list  reader
}

// A look is what the server is asked about portions of its keys.
type look struct {
	op      byte // opScan, Reset or opList
	pattern string
	roots   bool // of opList: the records are roots
}

// visit has the server look at a portion. It looks at some hundred or thousand keys, and
// serves others before the next portion.
func (s *Store) visit(ctx context.Context, n *node, l look, cursor string) (page, error) {
	roots := "0"
	if l.roots {
		roots = "1"
	}
	said, err := n.run(ctx, s.script, nil, []string{string([]byte{l.op}), cursor, l.pattern, roots}, false)
	if err != nil {
		return page{}, err
	}
	text, err := said.ToString()
	if err != nil {
		return page{}, err
	}
	return readPage(text)
}

func readPage(text string) (page, error) {
	p := page{list: reader{rest: []byte(text)}}
	p.now = limit.Micros(read64(p.list.take(8)))
	head := p.list.take(2 + 4)
	p.found = int(binary.LittleEndian.Uint32(head[2:]))
	length := int(binary.LittleEndian.Uint16(head))
	p.next = string(p.list.take(length)[:length])
	if p.list.bad {
		return page{}, errAnswer
	}
	return p, nil
}

// cells runs op on the cells of a group, or of all groups, until see says that it is
// enough.
func (s *Store) cells(ctx context.Context, op byte, group uint64, all bool, see func(page) bool) error {
	visited := s.nodes.masters()
	if !all && s.nodes.cluster {
		visited = []*node{s.nodes.of(slotOfGroup(group))}
	}
	return s.pages(ctx, visited, look{op: op, pattern: s.pattern(group, all)}, see)
}

// pages takes a look at all keys of nodes, one after the other, until see says that it is
// enough. What moves between the nodes of a Cluster meanwhile may be missed.
func (s *Store) pages(ctx context.Context, nodes []*node, l look, see func(page) bool) error {
	for _, n := range nodes {
		for cursor := first; ; {
			p, err := s.visit(ctx, n, l, cursor)
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
		err := s.cells(ctx, opScan, group, group == 0, func(p page) bool {
			for range p.found {
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

// Recorded implements sluice.Recorder. A server does not count them.
func (s *Store) Recorded() (n int, ok bool) { return 0, false }

// Records implements sluice.Recorder. It goes through all keys of all servers, in portions
// between which they serve others.
func (s *Store) Records(ctx context.Context) iter.Seq2[ledger.Remembered, error] {
	word := strings.Repeat("?", wordLen)
	l := look{op: opList, pattern: s.prefix + "{" + word + word + "}", roots: s.nodes.cluster}
	return func(yield func(ledger.Remembered, error) bool) {
		seen := make(map[ledger.ID]bool)
		err := s.pages(ctx, s.nodes.masters(), l, func(p page) bool {
			for range p.found {
				r, err := s.remembered(&p)
				if err == nil && seen[r.ID] { // SCAN may name a key twice
					continue
				}
				seen[r.ID] = true
				if !yield(r, err) || err != nil {
					return false
				}
			}
			return true
		})
		if err != nil {
			yield(ledger.Remembered{}, err)
		}
	}
}

// remembered reads the next record of a page.
func (s *Store) remembered(p *page) (ledger.Remembered, error) {
	in := &p.list
	id, ok := s.parseRecordKey(s.prefix + string(in.take(nameLen)[:nameLen]))
	r := ledger.Remembered{ID: id, Now: p.now}
	r.Call = uint64(read64(in.take(8)))
	r.At, r.Ended = limit.Micros(read64(in.take(8))), limit.Micros(read64(in.take(8)))
	var res ledger.Result
	res.Start(p.now)
	in.readRecord(&res)
	if in.bad || !ok {
		return r, errAnswer
	}
	r.Calls, r.Steps, r.Used, r.Note = res.Calls, res.Steps, res.Used, res.Note
	r.Settled, r.Released, r.WhileHeld, r.Outcome = res.Settled, res.Released, res.WhileHeld, res.Outcome
	if res.Left != ledger.Forever {
		r.Expires = p.now + res.Left
	}
	return r, nil
}

// reset makes cells full, a portion at a time.
func (s *Store) reset(ctx context.Context, cmd *ledger.Command, res *ledger.Result) error {
	if s.closed.Load() {
		return ErrClosed
	}
	res.Start(0)
	return s.cells(ctx, byte(ledger.Reset), cmd.Group, cmd.All, func(p page) bool {
		res.At = p.now
		res.Count += p.found
		return true
	})
}
