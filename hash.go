package sluice

import (
	"hash/maphash"
	"math/bits"

	"github.com/sluicegate/sluice/ledger"
)

// A hasher turns text into key material. Its seeds are random and stay in the process,
// so that nobody outside can choose values that collide; by chance, a million callers
// collide with a probability of 3e-8.
type hasher struct{ values, ids maphash.Seed }

func newHasher() hasher { return hasher{maphash.MakeSeed(), maphash.MakeSeed()} }

func (h *hasher) sum(s string) uint64 { return maphash.String(h.values, s) }

// id is the zero ID for the empty string.
func (h *hasher) id(s string) ledger.ID {
	if s == "" {
		return ledger.ID{}
	}
	return ledger.ID{Hi: h.sum(s), Lo: maphash.String(h.ids, s) | 1} // Lo is never zero
}

// mix combines two hashes so that the result depends on every bit of both and on their
// order: a 64×64→128 multiplication, folded.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0xa0761d6478bd642f, b^0xe7037ed1a0b428db)
	return hi ^ lo
}
