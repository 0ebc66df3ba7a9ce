package config

import (
	"path/filepath"
	"time"
)

// storeFile makes the ledger that limits.storeFile names the store, unless the file names
// another: there is one set of books.
func (k *compiler) storeFile() {
	if k.c.MCP == nil || k.c.MCP.Limits == nil || k.c.MCP.Limits.StoreFile == "" {
		return
	}
	l, s := k.c.MCP.Limits, &k.c.Store
	switch named := k.given(&s.Backend); {
	case s.File != nil && filepath.Clean(s.File.Path) != filepath.Clean(l.StoreFile):
		k.problem(&l.StoreFile, CodeConflict, "the books are in %s already, by store.file.path; remove one", s.File.Path)
	case named && s.Backend == "in-memory":
		k.problem(&l.StoreFile, CodeConflict, "the books are in memory, by store.backend, and a crash forgets them; remove one")
	case named && s.Backend != "file":
		k.problem(&l.StoreFile, WarnMissing, "nothing is kept there, because the backend is %s, which survives this process by itself", s.Backend)
	default:
		s.Backend = "file"
		if s.File == nil {
			s.File = &FileStore{Path: l.StoreFile}
		}
	}
}

// brokerRecords carries the settings of the limits block to the store, which may have its own.
func (k *compiler) brokerRecords() {
	if k.c.MCP == nil || k.c.MCP.Limits == nil {
		return
	}
	l, s := k.c.MCP.Limits, &k.c.Store
	var records *int64
	var retention *time.Duration
	var lock, rules *string
	own := false // the store says how long records are kept
	switch {
	case s.Backend == "file" && s.File != nil:
		f := s.File
		records, retention, lock, rules, own = &f.MaxRecords, &f.Retention, &f.StaleLock, &f.OnRulesChange, f.RetentionMs != nil
	case s.Backend == "in-memory":
		if s.Memory.MaxRecords == nil {
			s.Memory.MaxRecords = new(l.MaxRecords)
		}
		records, retention = s.Memory.MaxRecords, &s.Memory.Retention
	case s.Backend == "redis" && s.Redis != nil:
		retention = &s.Redis.Retention
	case s.Backend == "hazelcast" && s.Hazelcast != nil:
		retention = &s.Hazelcast.Retention
	}
	carry(k, &l.MaxRecords, l.MaxRecords, records, false)
	carry(k, &l.RetentionMs, k.milliseconds(&l.RetentionMs, l.RetentionMs), retention, own)
	carry(k, &l.StaleLock, l.StaleLock, lock, false)
	carry(k, &l.OnRulesChange, l.OnRulesChange, rules, false)
}

// carry sets what the store says of one thing to what the limits block says, if the store itself
// says nothing. Without a setting of the store the block's has no effect.
func carry[T comparable](k *compiler, from any, value T, to *T, own bool) {
	switch {
	case to == nil && k.given(from):
		k.problem(from, WarnMissing, "has no effect while the backend is %s", k.c.Store.Backend)
	case to == nil:
	case !own && !k.given(to):
		*to = value
	case k.given(from) && *to != value:
		k.problem(from, CodeConflict, "the store says %v already; remove one", *to)
	}
}
