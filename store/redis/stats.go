package redis

import (
	"context"
	"strconv"
	"strings"
)

// Stats is what a Store and its server say of themselves.
type Stats struct {
	// Failure is why the server, or one of a Cluster's, is not asked at the moment; nil
	// while all are.
	Failure error
	// Waiting is how many commands wait to be given back.
	Waiting int
	// Figures are the server's.
	Figures
}

// Figures are what the server says of all that is in it, whoever put it there, since its
// start: of a Cluster the sum over its masters. They are at most some seconds old, and
// zero where the user of the URI may not ask for INFO and DBSIZE.
type Figures struct {
	Keys         int64 // in the database
	Hits, Misses int64 // reads of keys that were there, and that were not
	Evictions    int64 // keys that the server has dropped for want of memory: counters that were lost
	Bytes        int64 // memory in use
	MaxBytes     int64 // the bound on it; zero is none
}

// Stats returns figures at once, without asking the server.
func (s *Store) Stats() Stats {
	st := Stats{Failure: s.nodes.failure(), Waiting: s.outbox.waiting()}
	if f := s.figures.Load(); f != nil {
		st.Figures = *f
	}
	return st
}

// lookAround asks the servers for their figures. One that does not tell keeps what is
// known: that it is down is the breaker's to find out.
func (s *Store) lookAround(ctx context.Context) {
	var sum Figures
	for _, n := range s.nodes.masters() {
		c, err := n.connected(ctx)
		if err != nil {
			return
		}
		said := c.DoMulti(ctx, c.B().Info().Build(), c.B().Dbsize().Build())
		info, err := said[0].ToString()
		if err != nil {
			return
		}
		sum.add(info)
		keys, _ := said[1].ToInt64() // zero if it may not be asked
		sum.Keys += keys
	}
	s.figures.Store(&sum)
}

// add adds what a server says in its INFO.
func (f *Figures) add(info string) {
	fields := map[string]*int64{
		"keyspace_hits": &f.Hits, "keyspace_misses": &f.Misses, "evicted_keys": &f.Evictions,
		"used_memory": &f.Bytes, "maxmemory": &f.MaxBytes,
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if field := fields[name]; field != nil {
			n, _ := strconv.ParseInt(value, 10, 64)
			*field += n
		}
	}
}
