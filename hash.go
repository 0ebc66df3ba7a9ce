package sluice

import (
	"hash/maphash"
	"math/bits"

	"github.com/sluicegate/sluice/ledger"
)

// A hasher turns text into key material. Its seeds are random and stay in the process,
// so that nobody outside can choose values that collide.
type hasher struct{ a, b maphash.Seed }

func newHasher() hasher { return hasher{maphash.MakeSeed(), maphash.MakeSeed()} }

// A digest is 128 bits of hash of one text.
type digest struct{ hi, lo uint64 }

func (h *hasher) sum(s string) digest {
	return digest{maphash.String(h.a, s), maphash.String(h.b, s)}
}

func (h *hasher) id(s string) ledger.ID {
	d := h.sum(s)
	return ledger.ID{Hi: d.hi, Lo: d.lo | 1} // never the zero ID
}

// mix combines two hashes so that the result depends on every bit of both and on their
// order: a 64×64→128 multiplication, folded.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0xa0761d6478bd642f, b^0xe7037ed1a0b428db)
	return hi ^ lo
}
