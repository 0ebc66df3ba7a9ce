package file

import (
	"context"
	"runtime"
	"time"

	"github.com/sluicegate/sluice/ledger"
)

const (
	probeFirst = 50 * time.Millisecond
	probeMost  = time.Second
)

// write is the goroutine that writes: one batch after the other, and a new generation of
// the log now and then.
func (s *Store) write() {
	defer close(s.stopped)
	probe, wait := time.NewTimer(0), probeFirst
	probe.Stop()
	for {
		select {
		case <-s.wake:
			s.gather()
			s.flush()
		case <-probe.C:
			s.flush()
		case err := <-s.scanned:
			s.flush() // what was noted while the generation was filled must be in both
			s.replace(err)
		case <-s.stop:
			s.finish()
			return
		}
		if s.failing() {
			probe.Reset(wait)
			wait = min(2*wait, probeMost)
		} else {
			wait = probeFirst
			s.renew()
		}
	}
}

// gather lets the callers of the last batch, who have just been woken, join the next
// together: without it the first of them would write alone while the others watch.
func (s *Store) gather() {
	for before := -1; ; {
		s.mu.Lock()
		n := s.pending.callers
		s.mu.Unlock()
		if n == before {
			return
		}
		before = n
		runtime.Gosched()
	}
}

// flush writes the pending batch. While the disk refuses it writes even if there is
// nothing: that shows whether it still does.
func (s *Store) flush() {
	s.mu.Lock()
	b := s.pending
	if b.empty() && s.failure == nil {
		s.mu.Unlock()
		return
	}
	s.pending = s.spare
	payload := s.encode(b)
	at := stampNow(s.memory.Now())
	s.mu.Unlock()

	var err error
	if s.journal.suspect {
		s.dropGeneration()
		err = s.rewrite()
	} else {
		err = s.journal.append(at, payload)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed(b, err)
		return
	}
	if s.next != nil {
		s.next.tail = append(s.next.tail, tailFrame{at, payload})
	}
	s.stats.writes.Add(1)
	s.stats.bytes.Add(uint64(len(payload)))
	s.stats.confirmed.Add(uint64(b.callers))
	s.written(b)
}

// written confirms a batch. The caller holds s.mu.
func (s *Store) written(b *batch) {
	if s.failure != nil {
		s.failure = nil
		s.options.Logger.Info("file: the disk takes writes again", "store", s.path)
	}
	s.conclude(b, nil)
	for _, e := range b.takes {
		if e.gone {
			s.also(e.undo)
		}
	}
	s.spare = b.reuse()
}

// failed refuses a batch, and the next with it, and takes back what their callers took.
// What was given back stays given back and is kept for the next write. The caller holds
// s.mu.
func (s *Store) failed(b *batch, err error) {
	if s.failure == nil {
		s.options.Logger.Error("file: the disk refuses writes; controlled work is refused until it takes them again",
			"store", s.path, "error", err)
	}
	s.failure = err
	s.abandonGeneration()
	later := s.pending
	s.pending = newBatch()
	for _, x := range []*batch{later, b} { // the latest first
		for i := len(x.takes) - 1; i >= 0; i-- {
			s.also(x.takes[i].undo)
		}
		s.pending.adopt(x)
		s.conclude(x, s.refusal())
	}
	s.spare = newBatch()
	for key := range b.cells { // the log does not hold what was to be written
		if d, ok := s.cells[key]; ok {
			s.cells[key] = onDisk{pool: d.pool}
		}
	}
	for id := range s.pending.grants {
		s.unwritten[id] = s.pending
	}
}

// conclude tells the callers of a batch how it ended. The caller holds s.mu.
func (s *Store) conclude(b *batch, err error) {
	for id := range b.grants {
		if s.unwritten[id] == b {
			delete(s.unwritten, id)
		}
	}
	b.err, b.over = err, true
	close(b.done)
}

// also carries out a command of the store's own. The caller holds s.mu.
func (s *Store) also(cmd ledger.Command) {
	cmds, res := []ledger.Command{cmd}, make([]ledger.Result, 1)
	if err := s.memory.Apply(context.Background(), cmds, res); err == nil && s.note(&cmds[0], &res[0]) {
		s.wakeWriter()
	}
}

func (s *Store) failing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure != nil
}

// finish writes what is left, at the end.
func (s *Store) finish() {
	s.dropGeneration()
	s.flush()
	s.flush() // what the first has taken back, from callers who had gone
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		s.ended = s.refusal()
	}
}
