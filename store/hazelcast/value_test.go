package hazelcast

import (
	"math"
	"reflect"
	"testing"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// samples are values of every kind, with the largest numbers.
func samples() []*value {
	log := &limit.Log{}
	log.Append(limit.Debit{At: 5, N: 1})
	log.Append(limit.Debit{At: math.MaxInt64, N: math.MaxInt64})
	step := ledger.Step{
		Key: ledger.Key{Group: math.MaxUint64, Cell: 1}, Limit: limit.Window(5, limit.Day), N: 3,
		Set: 255, Keep: true, Volatile: true, Pool: math.MaxUint64,
	}
	x := stamp{math.MaxUint64, math.MaxUint64}
	writers := []writer{{x, math.MaxInt64}, {stamp{1, 2}, 3}}
	return []*value{
		{},
		{writers: writers, state: state{cell: &account{limit: limit.Slots(math.MaxInt64), cell: limit.Cell{At: 1, Used: math.MaxInt64}}}},
		{writers: writers, state: state{cell: &account{limit: limit.Window(5, limit.Day), cell: limit.Cell{At: 7, Used: 2, Log: log}}}},
		{writers: writers, state: state{record: &ledger.Record{At: 1, Call: math.MaxUint64, Calls: 9, Expires: math.MaxInt64, Steps: []ledger.Step{step, step}}}},
		{writers: writers, state: state{record: &ledger.Record{At: 1, Ended: 2, Steps: []ledger.Step{step}, Used: []int64{-1}, Settled: true, Released: true}}},
		{writers: writers, state: state{record: &ledger.Record{
			At: 1, Steps: []ledger.Step{step}, Used: []int64{-1}, Settled: true, Outcome: 255, WhileHeld: true, Note: make([]byte, ledger.MaxNote),
		}}},
		{writers: writers, intent: &intent{stamp: x, primary: "c", next: []byte{1, 2, 3}}},
		{writers: writers, mark: &mark{stamp: x, keys: []string{"a", "b"}}},
	}
}

func TestValueIsReadAsWritten(t *testing.T) {
	for i, v := range samples() {
		got, err := decodeValue(v.encode())
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if string(got.encode()) != string(v.encode()) || v.state.cell == nil && !reflect.DeepEqual(got, v) {
			t.Errorf("%d: read as %+v, written as %+v", i, got, v)
		}
	}
}

// TestDamagedValue reads every value cut short, and with every byte changed: it must be
// an error, or a value, and no panic.
func TestDamagedValue(t *testing.T) {
	for i, v := range samples() {
		raw := v.encode()
		for n := range raw {
			if _, err := decodeValue(raw[:n]); err == nil {
				t.Errorf("%d: %d of %d bytes were read", i, n, len(raw))
			}
			for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff} {
				damaged := append([]byte(nil), raw...)
				damaged[n] = b
				if got, err := decodeValue(damaged); err == nil {
					got.encode()
				}
			}
		}
		if _, err := decodeValue(append(raw, 0)); err == nil {
			t.Errorf("%d: a byte too many was read", i)
		}
	}
}

func TestWritersAreBounded(t *testing.T) {
	v := &value{}
	for i := range uint64(100) {
		v = &value{writers: v.stamped(stamp{i, 1}, limit.Micros(i))}
	}
	if len(v.writers) != maxWriters || v.writers[0].process != 99 || v.last(90) != 1 || v.last(1) != 0 {
		t.Errorf("%+v", v.writers)
	}
	if w := v.stamped(stamp{7, 2}, writerSpan+200); len(w) != 1 {
		t.Errorf("%d writers are remembered that wrote long ago", len(w)-1)
	}
}

func TestKeysAreReadAsWritten(t *testing.T) {
	for _, k := range []ledger.Key{{}, {Group: math.MaxUint64}, {Group: 1, Cell: math.MaxUint64}} {
		if got, ok := parseCell(cellKey(k)); !ok || got != k {
			t.Errorf("%+v is read as %+v", k, got)
		}
		id := ledger.ID{Hi: k.Group, Lo: k.Cell}
		if key := recordKey(id); parseRecord(key) != id || !isRecord(key) {
			t.Errorf("%+v is read as %+v", id, parseRecord(key))
		}
	}
	if _, ok := parseCell(recordKey(ledger.ID{Lo: 1})); ok {
		t.Error("a record was read as a cell")
	}
}
