package main

import (
	"log/slog"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/admin"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/store/file"
	"github.com/sluicegate/sluice/store/memory"
)

func TestFileOptions(t *testing.T) {
	t.Setenv("LEDGER_SECRET", "0123456789abcdefghijklmnopqrstuv")
	c, problems := config.Load(nil, config.Options{Set: []string{
		"store.backend=file", "store.file.path=" + filepath.Join(t.TempDir(), "ledger"), "store.file.maxKeys=4096",
		"store.file.maxRecords=7", "store.file.retention=2h", "store.file.staleLock=refuse",
		"store.file.onRulesChange=refuse", "store.file.keySecret=${LEDGER_SECRET}",
	}})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	o := fileOptions(c.Store.File, slog.New(slog.DiscardHandler))
	if o.MaxCells != 4096 || o.MaxRecords != 7 || o.Retention != 2*time.Hour || o.StaleLock != file.RefuseLock ||
		o.OnRulesChange != file.RefuseRules || string(o.KeySecret) != "0123456789abcdefghijklmnopqrstuv" {
		t.Errorf("%+v", o)
	}
	b, err := openStore(&c.Store, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close() //nolint:errcheck // nothing was written
	if string(b.secret) != string(o.KeySecret) {
		t.Error("keys are made with another secret")
	}
	if b.processes != 1 || b.shares == nil {
		t.Error("there is no share for rules that fail local")
	}
	if st := b.stats(); st.Backend != "file" || st.MaxKeys != 4096 || st.Degraded {
		t.Errorf("%+v", st)
	}
}

func TestFileStats(t *testing.T) {
	t.Run("C-87 a disk that refuses is a store that does not answer", func(t *testing.T) {
		got := fileStats(file.Stats{Stats: memory.Stats{Cells: 3, MaxCells: 9, Grants: 2}, Failure: syscall.ENOSPC})
		want := admin.Stats{Backend: "file", Keys: 3, MaxKeys: 9, Records: 2, Degraded: true, Fault: "no space left on device"}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}
