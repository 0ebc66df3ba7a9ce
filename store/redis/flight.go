package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

const (
	maxFlying = 2  // script calls under way at a time
	maxParts  = 64 // commands that one script call carries at most, if of several requests

	// patience is the longest wait for which a caller whose context may end is kept from
	// noticing that it has.
	patience = 50 * time.Millisecond
)

// A lane brings requests to a server. Those that come while calls are under way share the
// next call. A request that finds the lane empty leaves at once: nobody waits for others
// to join.
type lane struct {
	fly func([]*request)

	mu     sync.Mutex
	queue  []*request
	flying int
}

// laneOf returns the lane of r. A script call all of whose commands are quick ones is
// cheaper.
func (s *Store) laneOf(r *request) *lane {
	lanes := &s.lanes[s.slot(r)]
	if r.quick() {
		return &lanes[0]
	}
	return &lanes[1]
}

// send puts r on its way. If it may leave at once and stays is set, the caller brings it
// there itself and is back with the answer: that spares two changes of goroutine, which
// cost more than the script.
func (l *lane) send(r *request, stays bool) {
	l.mu.Lock()
	if l.flying == maxFlying {
		l.queue = append(l.queue, r)
		l.mu.Unlock()
		return
	}
	l.flying++
	l.mu.Unlock()
	r.alone[0] = r
	if !stays {
		go l.carry(r.alone[:])
		return
	}
	l.fly(r.alone[:])
	if batch := l.next(nil); len(batch) > 0 {
		go l.carry(batch)
	}
}

// carry takes a batch to the server, and then what has come meanwhile, until there is
// nothing.
func (l *lane) carry(batch []*request) {
	var room []*request
	for len(batch) > 0 {
		l.fly(batch)
		room = l.next(room[:0])
		batch = room
	}
}

// next takes the next requests from the queue, or ends the flight if there are none.
func (l *lane) next(batch []*request) []*request {
	l.mu.Lock()
	defer l.mu.Unlock()
	parts, n := 0, 0
	for n < len(l.queue) && (n == 0 || parts+len(l.queue[n].parts) <= maxParts) {
		parts += len(l.queue[n].parts)
		n++
	}
	batch = append(batch, l.queue[:n]...)
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	if n == 0 {
		l.flying--
	}
	return batch
}

// A script is a text and the name by which a server knows it.
type script struct{ text, sha string }

func newScript(text string) script {
	sum := sha1.Sum([]byte(text))
	return script{text, hex.EncodeToString(sum[:])}
}

// fly carries out the requests of a batch in one script call, and answers them.
func (s *Store) fly(batch []*request) {
	ctx, cancel := context.WithTimeout(context.Background(), s.wait)
	defer cancel()
	text, err := s.call(ctx, batch)
	switch {
	case err == nil:
		err = split(batch, text)
		s.refusals.saw(batch[0].now)
	case isFull(err) && len(batch) > 1:
		// Nothing was written. What gives back may still pass, alone.
		for i := range batch {
			s.fly(batch[i : i+1])
		}
		return
	case isTryAgain(err):
		for _, r := range batch {
			go s.insist(r)
		}
		return
	}
	s.land(batch, err)
}

// land answers the requests of a batch.
func (s *Store) land(batch []*request, err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.late()
	}
	for _, r := range batch {
		if !r.answer(err) {
			s.orphan(r)
		}
	}
}

// insist sends a request alone whose keys are on their way from one node of a Cluster to
// another, until all have arrived, and leaves the lane to requests of other keys.
func (s *Store) insist(r *request) {
	ctx, cancel := context.WithTimeout(context.Background(), s.wait)
	defer cancel()
	alone := []*request{r}
	text, err := s.call(ctx, alone)
	for pause := time.Millisecond; isTryAgain(err) && wait(ctx, pause); pause *= 2 {
		text, err = s.call(ctx, alone)
	}
	if err == nil {
		err = split(alone, text)
	}
	s.land(alone, err)
}

// call sends a script call, and the script itself if the server does not know it.
func (s *Store) call(ctx context.Context, batch []*request) (string, error) {
	if batch[0].quick() {
		return s.callQuick(ctx, batch)
	}
	keys, args := 0, 0
	for _, r := range batch {
		keys += len(r.keys)
		args += len(r.parts)
	}
	words := make([]string, 0, keys+args)
	for _, r := range batch {
		words = append(words, r.keys...)
	}
	for _, r := range batch {
		for i := range r.parts {
			words = append(words, rueidis.BinaryString(r.parts[i].blob))
		}
	}
	return s.eval(ctx, words[:keys], words[keys:])
}

func (s *Store) eval(ctx context.Context, keys, args []string) (string, error) {
	said, err := s.run(ctx, s.script, keys, args)
	if err != nil {
		return "", err
	}
	return said.ToString()
}

// isFull reports whether the server refused to write because its memory is full. It
// refuses the first write of a script or none.
func isFull(err error) bool {
	e, ok := rueidis.IsRedisErr(err)
	return ok && strings.Contains(e.Error(), "OOM ")
}

// isDown reports whether err says that the server cannot do its work now. Other errors
// are mistakes, ours or in the server's settings, and waiting does not help.
func isDown(err error) bool {
	if err == nil || errors.Is(err, errAnswer) {
		return false
	}
	e, ok := rueidis.IsRedisErr(err)
	if !ok {
		return true
	}
	for _, word := range []string{"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "MISCONF", "UNKILLABLE"} {
		if strings.Contains(e.Error(), word) {
			return true
		}
	}
	return false
}
