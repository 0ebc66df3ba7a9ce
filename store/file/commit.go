package file

import (
	"runtime"
	"time"
)

const (
	probeFirst = 50 * time.Millisecond
	probeMost  = time.Second
)

// keepBooks is the goroutine that owns the books: it carries out what callers ask for,
// one batch of them after the other, and has another goroutine write them down. It never
// waits for the disk but at the end, and after a sync has failed.
func (s *Store) keepBooks() {
	defer close(s.stopped)
	go s.useDisk()
	defer close(s.jobs)
	for {
		select {
		case <-s.inbox.wake:
			s.decideAll()
		case err := <-s.written:
			s.done(err)
		case <-s.probe.C:
			s.probing = true
		case err := <-s.filled():
			s.fillMore(err)
		case <-s.stop:
			s.finish()
			return
		}
		s.useIdleDisk()
	}
}

// useDisk is the goroutine that waits for the disk.
func (s *Store) useDisk() {
	for job := range s.jobs {
		s.written <- job()
	}
}

// useIdleDisk gives the disk what there is to do, unless it is at work. While it refuses
// it is tried now and then, even if there is nothing to write: that shows whether it
// still does.
func (s *Store) useIdleDisk() {
	switch {
	case s.then != nil:
	case s.failure != nil && !s.probing:
	case s.failure != nil:
		s.writePending()
	case s.next != nil && s.next.complete():
		s.finishGeneration()
	case !s.pending.empty():
		s.gather()
		s.writePending()
	default:
		s.renew()
	}
}

// give hands the disk a job. When it is done, then is called with how it ended.
func (s *Store) give(job func() error, then func(error)) {
	s.then = then
	s.jobs <- job
}

// done is called when the disk has done its job.
func (s *Store) done(err error) {
	then := s.then
	s.then = nil
	then(err)
}

// gather lets the callers of the last batch, who have just been woken, join the next
// together: without it the first of them would be written alone while the others watch.
// It ends when nobody has joined for two rounds. A caller who is alone waits for nobody,
// and a crowd that does not end is not waited for.
func (s *Store) gather() {
	for quiet, rounds := 0, 0; quiet < 2 && rounds < gatherRounds; rounds++ {
		before := len(s.pending.callers)
		runtime.Gosched()
		s.decideAll()
		if quiet++; len(s.pending.callers) > before {
			quiet = 0
		}
	}
}

const gatherRounds = 64

// writePending has the pending batch written. If the log is suspect it is written anew,
// which the books have to wait for.
func (s *Store) writePending() {
	b := s.pending
	s.pending, s.writing, s.probing = s.spare, b, false
	s.encode(b)
	if s.journal.suspect {
		s.dropGeneration()
		s.conclude(s.rewrite())
		return
	}
	b.at = stampNow(s.memory.Now())
	s.give(func() error { return s.journal.append(b.at, b.records) }, s.conclude)
}

// conclude ends the batch that was being written.
func (s *Store) conclude(err error) {
	b := s.writing
	s.writing = nil
	if err != nil {
		s.failed(b, err)
		return
	}
	if s.failure != nil {
		s.setFailure(nil)
		s.options.Logger.Info("file: the disk takes writes again", "store", s.path)
	}
	s.stats.writes.Add(1)
	s.stats.bytes.Add(uint64(len(b.records)))
	s.stats.confirmed.Add(uint64(len(b.callers)))
	s.stats.durable.Store(int64(len(s.cells)))
	if s.next != nil {
		s.next.follow(b)
	}
	s.answer(b, nil)
	b.clear()
	s.spare = b
}

// failed refuses a batch, and the next with it, and takes back what their callers took.
// What was given back stays given back and is kept for the next write.
func (s *Store) failed(b *batch, err error) {
	if s.failure == nil {
		s.pause = probeFirst
		s.options.Logger.Error("file: the disk refuses writes; controlled work is refused until it takes them again",
			"store", s.path, "error", err)
	}
	s.setFailure(err)
	s.probe.Reset(s.pause)
	s.pause = min(2*s.pause, probeMost)
	if s.next != nil {
		s.next.spoilt = true
	}
	later := s.pending
	s.pending, s.spare = newBatch(), newBatch()
	for _, x := range []*batch{later, b} { // the latest first
		for i := len(x.takes) - 1; i >= 0; i-- {
			s.also(x.takes[i].undo())
		}
		s.pending.adopt(x)
		x.takes = nil
	}
	for key := range s.pending.cells { // the log does not hold what was to be written
		if d := s.cells[key]; d != nil {
			d.youngest = 0
		}
	}
	s.answer(b, s.refusal())
	s.answer(later, s.refusal())
}

// answer tells the callers of a batch how it ended, takes back what those took who have
// gone, and looks at the requests that were held back.
func (s *Store) answer(b *batch, err error) {
	for i, r := range b.callers {
		switch {
		case r.next < len(r.cmds): // held back: it goes on below
			r.in, r.err = nil, err
		case r.state.CompareAndSwap(idle, answered):
			continue
		}
		b.callers[i] = nil
	}
	for i := range b.takes {
		if b.takes[i].by.state.Load() == gone {
			s.also(b.takes[i].undo())
		}
	}
	for _, r := range b.callers {
		if r != nil {
			r.answer <- err // from here on r is its caller's
		}
	}
	for _, r := range b.heldBack {
		s.decide(r)
	}
}

// finish writes what is left, at the end.
func (s *Store) finish() {
	s.inbox.close()
	if s.then != nil {
		s.done(<-s.written)
	}
	s.decideAll()
	s.dropGeneration()
	for tried := false; !s.pending.empty() || s.failure != nil && !tried; tried = true {
		s.writePending()
		if s.then != nil {
			s.done(<-s.written)
		}
		if s.failure != nil {
			s.ended = s.refusal()
			return
		}
	}
}

func (s *Store) setFailure(err error) {
	s.failure = err
	if err == nil {
		s.stats.failure.Store(nil)
	} else {
		s.stats.failure.Store(&err)
	}
}
