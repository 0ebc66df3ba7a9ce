package processes

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
)

// An entry is units of one cell that were taken or given back, at some instant from From
// to To, in microseconds since 1970. The two are the same if the store told the instant.
type entry struct {
	Cell     uint64
	Rule     uint8 // its place in the policy
	Op       uint8
	N        int64
	At       int64 // by which store and controller know the grant
	From, To int64
}

const (
	taken  = uint8(iota) // granted to a caller
	back                 // slots of a caller that has ended
	voided               // a grant that no caller got
)

func write(file string, log []entry) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := binary.Write(f, binary.LittleEndian, log); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return f.Close()
}

func read(file string) ([]entry, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	log := make([]entry, info.Size()/int64(binary.Size(entry{})))
	return log, binary.Read(f, binary.LittleEndian, log)
}

// cells sorts a log by its cells, in the order of time, without what nobody got.
func cells(log []entry) map[uint64][]entry {
	type grant struct {
		cell  uint64
		n, at int64
	}
	gone := map[grant]int{}
	for _, e := range log {
		if e.Op == voided {
			gone[grant{e.Cell, e.N, e.At}]++
		}
	}
	byCell := map[uint64][]entry{}
	for _, e := range log {
		g := grant{e.Cell, e.N, e.At}
		switch {
		case e.Op == voided:
		case e.Op == taken && gone[g] > 0:
			gone[g]--
		default:
			byCell[e.Cell] = append(byCell[e.Cell], e)
		}
	}
	for _, list := range byCell {
		slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.From, b.From) })
	}
	return byCell
}
