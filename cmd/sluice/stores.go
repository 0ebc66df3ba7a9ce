package main

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/admin"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/store/file"
	"github.com/sluicegate/sluice/store/memory"
)

// stores are the stores there are, by the name that store.backend gives them.
var stores = map[string]func(*config.Store, *slog.Logger) (books, error){
	"in-memory": openMemory,
	"file":      openFile,
	"redis":     openRedis,
	"hazelcast": openHazelcast,
}

// books are an open store and what it says of itself.
type books struct {
	sluice.Store
	// secret is what keys are made with, nil if the books end with the process.
	secret []byte
	// processes share the store, and shares are this one's part of each limit, for the
	// time while it fails. Nil is one that goes on for nobody.
	processes int
	shares    sluice.Store
	stats     func() admin.Stats
}

// Close ends the store and this process's shares of it.
func (b *books) Close() error {
	err := b.Store.Close()
	if b.shares != nil {
		err = errors.Join(err, b.shares.Close())
	}
	return err
}

func openStore(s *config.Store, log *slog.Logger) (books, error) {
	open, ok := stores[s.Backend]
	if !ok {
		return books{}, fmt.Errorf("there is no store %q", s.Backend)
	}
	return open(s, log)
}

func openMemory(s *config.Store, _ *slog.Logger) (books, error) {
	o := memory.Options{Retention: s.Memory.Retention}
	if s.Memory.MaxKeys != nil {
		o.MaxCells = int(*s.Memory.MaxKeys)
	}
	if s.Memory.MaxRecords != nil {
		o.MaxGrants = int(*s.Memory.MaxRecords)
	}
	store := memory.New(o)
	return books{Store: store, stats: func() admin.Stats { return memoryStats("in-memory", store.Stats()) }}, nil
}

func openFile(s *config.Store, log *slog.Logger) (books, error) {
	store, err := file.Open(s.File.Path, fileOptions(s.File, log))
	if err != nil {
		return books{}, err
	}
	b := books{Store: store, secret: store.KeySecret(), stats: func() admin.Stats { return fileStats(store.Stats()) }}
	b.share(new(int64(1))) // the whole, while the disk refuses
	return b, nil
}

func fileStats(st file.Stats) admin.Stats {
	s := memoryStats("file", st.Stats)
	s.Records = int64(st.Grants)
	if st.Failure != nil {
		s.Degraded, s.Fault = true, st.Failure.Error()
	}
	return s
}

func fileOptions(f *config.FileStore, log *slog.Logger) file.Options {
	o := file.Options{MaxRecords: int(f.MaxRecords), Retention: f.Retention, Logger: log}
	if f.MaxKeys != nil {
		o.MaxCells = int(*f.MaxKeys)
	}
	if !f.KeySecret.IsZero() {
		o.KeySecret = []byte(f.KeySecret.Reveal())
	}
	if f.StaleLock == "refuse" {
		o.StaleLock = file.RefuseLock
	}
	if f.OnRulesChange == "refuse" {
		o.OnRulesChange = file.RefuseRules
	}
	return o
}

// memoryStats are the figures of books that are decided in memory.
func memoryStats(backend string, st memory.Stats) admin.Stats {
	return admin.Stats{
		Backend: backend, Keys: int64(st.Cells), MaxKeys: int64(st.MaxCells), Misses: int64(st.Inserted),
		Evictions: int64(st.Forgotten), Overflow: int64(st.Overflowed),
	}
}
