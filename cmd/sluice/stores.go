package main

import (
	"fmt"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/admin"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/store/memory"
)

// stores are the stores there are, by the name that store.backend gives them.
var stores = map[string]func(*config.Store) (books, error){
	"in-memory": openMemory,
}

// books are an open store and what it says of itself.
type books struct {
	sluice.Store
	stats func() admin.Stats
}

func openStore(s *config.Store) (books, error) {
	open, ok := stores[s.Backend]
	if !ok {
		return books{}, fmt.Errorf("there is no store %q", s.Backend)
	}
	return open(s)
}

func openMemory(s *config.Store) (books, error) {
	var o memory.Options
	if s.Memory.MaxKeys != nil {
		o.MaxCells = int(*s.Memory.MaxKeys)
	}
	store := memory.New(o)
	return books{store, func() admin.Stats {
		st := store.Stats()
		return admin.Stats{
			Backend: "in-memory", Keys: int64(st.Cells), MaxKeys: int64(st.MaxCells), Misses: int64(st.Inserted),
			Evictions: int64(st.Forgotten), Overflow: int64(st.Overflowed),
		}
	}}, nil
}
