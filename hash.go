package sluice

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"

	"github.com/sluicegate/sluice/ledger"
)

// A hasher turns text into key material, with a secret, so that nobody outside can
// choose values that collide.
//
// Without a secret of the owner it draws one for the process and hashes to 64 bits: by
// chance, a million callers collide with a probability of 3e-8. With one, the keys are
// the same in every process that has it, and after a restart, and are 128 bits of
// HMAC-SHA-256.
type hasher struct {
	values, ids maphash.Seed
	secret      []byte
}

// A digest is the hash of one text.
type digest struct{ hi, lo uint64 }

func newHasher(secret []byte) hasher {
	return hasher{maphash.MakeSeed(), maphash.MakeSeed(), slices.Clone(secret)}
}

func (h *hasher) sum(s string) digest {
	if h.secret == nil {
		v := maphash.String(h.values, s)
		return digest{v, v}
	}
	return h.shared(s)
}

func (h *hasher) shared(s string) digest {
	mac := hmac.New(sha256.New, h.secret)
	mac.Write([]byte(s))
	sum := mac.Sum(nil)
	return digest{binary.BigEndian.Uint64(sum), binary.BigEndian.Uint64(sum[8:])}
}

// id is the zero ID for the empty string.
func (h *hasher) id(s string) ledger.ID {
	if s == "" {
		return ledger.ID{}
	}
	if h.secret == nil {
		return ledger.ID{Hi: maphash.String(h.values, s), Lo: maphash.String(h.ids, s) | 1}
	}
	d := h.shared("id\x00" + s)
	return ledger.ID{Hi: d.hi, Lo: d.lo | 1} // Lo is never zero
}

// call fingerprints who asks for what, and for how much, so that an ID that is used for
// another call is recognised. Where the call comes from and which rules are about it may
// change from one attempt to the next.
func (h *hasher) call(c *Call) uint64 {
	var text []byte
	for _, v := range [...]string{
		c.Kind, c.Subject, c.Tenant, c.Provider, c.Capability, c.Resource, c.Method, c.Model,
	} {
		text = appendText(text, v)
	}
	for _, a := range c.Cost {
		text = binary.AppendVarint(appendText(text, string(a.Unit.named())), a.N)
	}
	return h.sum(string(text)).hi
}

// appendText appends s so that where it ends cannot be mistaken.
func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// mix combines two hashes so that the result depends on every bit of both and on their
// order: a 64×64→128 multiplication, folded.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0xa0761d6478bd642f, b^0xe7037ed1a0b428db)
	return hi ^ lo
}
