package file_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/file"
)

// smallStore makes a store with a little of everything and returns its log.
func smallStore(t *testing.T, path string) []byte {
	t.Helper()
	d := newDesk(t, path, file.Options{})
	if err := d.Keep([]ledger.Owner{{Pool: 2, Rule: "r", Name: "window", Group: "subject", Limit: limit.Window(10, limit.Day)}}); err != nil {
		t.Fatal(err)
	}
	bucket, window, slots := step(1, limit.Bucket(1, limit.Day, 10), 3), step(2, limit.Window(10, limit.Day), 1), step(3, limit.Slots(2), 1)
	d.want(ledger.Done, take(bucket, window))
	d.want(ledger.Done, named(1, take(window, slots)))
	d.want(ledger.Done, named(1, settle(2, -1)))
	d.want(ledger.Done, named(2, take(window, slots)))
	d.want(ledger.Done, named(2, release))
	d.want(ledger.Done, named(3, take(window)))
	d.want(ledger.Done, named(3, ledger.Command{Op: ledger.Void}))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return readFile(t, path)
}

// TestDamageIsNeverAWrongNumber changes every byte of a store, one at a time. Each time
// there is a clear error, or the store reads as it was.
func TestDamageIsNeverAWrongNumber(t *testing.T) {
	path := freshPath(t)
	whole := smallStore(t, path)
	want, err := file.Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	errs, same := 0, 0
	look := func(what string, at int) {
		got, err := file.Inspect(path)
		var damage *file.DamageError
		switch {
		case errors.As(err, &damage):
			errs++
		case err != nil:
			t.Fatalf("C-90 %s %d: %v is no damage", what, at, err)
		case !reflect.DeepEqual(got, want):
			t.Fatalf("C-90 %s %d: a wrong number: %+v", what, at, got)
		default:
			same++
		}
	}
	end := int(want.Bytes)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for at := 0; at < end+200; at++ {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			f.WriteAt([]byte{whole[at] ^ flip}, int64(at))
			look("flip of byte", at)
		}
		f.WriteAt(whole[at:at+1], int64(at))
	}
	look("no change at", 0)
	for n := 0; n < end; n++ {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		before := same
		look("C-W19 cut at", n)
		if same != before {
			t.Fatalf("C-W19 a store that was cut at %d of %d reads as whole", n, end)
		}
	}
	if errs == 0 || same == 0 {
		t.Errorf("%d errors and %d correct loads; both are to be expected", errs, same)
	}
}

func TestDamageStopsTheStart(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		want   string
	}{
		{"C-90 a bad checksum", func(b []byte) []byte { b[4200] ^= 1; return b }, "is damaged at byte"},
		{"C-90 not a ledger", func(b []byte) []byte { return []byte(strings.Repeat("{}", 4096)) }, "does not begin as a sluice ledger"},
		{"C-90 empty", func([]byte) []byte { return nil }, "ends before its first record"},
		{"a newer version", func(b []byte) []byte { binary.LittleEndian.PutUint64(b[8:], 4); return b }, "format version 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := freshPath(t)
			damaged := c.change(smallStore(t, path))
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := file.Open(path, file.Options{})
			wantOneLine(t, err, c.want)
			if _, err := os.Stat(path + ".lock"); err == nil {
				t.Error("C-90 the lock is still there")
			}
			if got := readFile(t, path); string(got) != string(damaged) {
				t.Error("the damaged file was changed")
			}
		})
	}
}

func TestRecover(t *testing.T) {
	window := step(2, limit.Window(10, limit.Day), 1)
	t.Run("C-W19 what is before the damage", func(t *testing.T) {
		path := freshPath(t)
		whole := smallStore(t, path)
		before, err := file.Verify(path)
		if err != nil {
			t.Fatal(err)
		}
		os.Truncate(path, before.Bytes-1) // into the void of grant 3
		if _, err := file.Open(path, file.Options{}); err == nil {
			t.Fatal("a cut store was opened without being asked")
		}
		kept, saved, err := file.Recover(path, file.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if b := readFile(t, kept); len(b) != int(before.Bytes)-1 || string(b[:100]) != string(whole[:100]) {
			t.Error("the damaged file was not kept")
		}
		if saved.Cells != before.Cells || saved.Open != 2 {
			t.Errorf("saved %+v of %+v", saved, before)
		}
		newDesk(t, path, file.Options{}).left(5, window)
	})
	t.Run("C-W19 the last good generation", func(t *testing.T) {
		path := freshPath(t)
		smallStore(t, path)
		newDesk(t, path, file.Options{}).Close() // its backup is the small store
		os.Truncate(path, 100)
		if _, saved, err := file.Recover(path, file.Options{}); err != nil || saved.Open != 1 {
			t.Fatalf("saved %+v, %v", saved, err)
		}
		newDesk(t, path, file.Options{}).left(6, window)
	})
	t.Run("nothing to do", func(t *testing.T) {
		path := freshPath(t)
		smallStore(t, path)
		_, _, err := file.Recover(path, file.Options{})
		wantOneLine(t, err, "not damaged")
	})
	t.Run("nothing to be saved", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "ledger")
		os.WriteFile(path, []byte("?"), 0o600)
		_, _, err := file.Recover(path, file.Options{})
		wantOneLine(t, err, "nothing of")
	})
	t.Run("a store in use", func(t *testing.T) {
		path := freshPath(t)
		newDesk(t, path, file.Options{})
		_, _, err := file.Recover(path, file.Options{})
		wantOneLine(t, err, "uses it")
	})
}

func TestCompact(t *testing.T) {
	path := freshPath(t)
	smallStore(t, path)
	before, after, err := file.Compact(path, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if after.Bytes >= before.Bytes || after.Cells != before.Cells || after.Open != before.Open || after.Ended != before.Ended {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
