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
	Evicts       bool  // it drops keys when the bound is reached, instead of refusing new ones
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
	if before := s.figures.Swap(&sum); sum.Evicts && (before == nil || !before.Evicts) {
		s.log.Warn("redis: the server forgets counters when its memory is full; set maxmemory-policy to noeviction")
	}
}

// add adds what a server says in its INFO.
func (f *Figures) add(info string) {
	said := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		said[name] = value
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(said[name], 10, 64) // zero if it is not said
		return n
	}
	f.Hits += number("keyspace_hits")
	f.Misses += number("keyspace_misses")
	f.Evictions += number("evicted_keys")
	f.Bytes += number("used_memory")
	f.MaxBytes += number("maxmemory")
	f.Evicts = f.Evicts || number("maxmemory") > 0 && said["maxmemory_policy"] != "noeviction"
}
