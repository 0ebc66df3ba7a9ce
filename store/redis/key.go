package redis

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/sluicegate/sluice/ledger"
)

// The names of keys. Every half of a key is 64 bits, written as 11 characters of
// URL-safe base64, so that a name has a fixed length, needs no quoting in a pattern, and
// has exactly one hash tag, which nothing that a caller says can move:
//
//	sluice:{GROUP}CELL     a cell; those of one caller share a slot of a cluster
//	sluice:{GROUP}ID       what the store itself remembers of a command about such cells
//	sluice:{ID}            the record of a grant
//
// Cells that are shared by all have the group zero, and a slot of their own together.

const (
	wordLen = 11
	nameLen = 2 + 2*wordLen // of a cell, without the prefix
)

var base = base64.RawURLEncoding

func appendWord(b []byte, v uint64) []byte {
	var word [8]byte
	binary.BigEndian.PutUint64(word[:], v)
	return base.AppendEncode(b, word[:])
}

func appendTag(b []byte, group uint64) []byte {
	return append(appendWord(append(b, '{'), group), '}')
}

func (s *Store) cellKey(k ledger.Key) string {
	b := make([]byte, 0, 64)
	return string(appendWord(appendTag(append(b, s.prefix...), k.Group), k.Cell))
}

func (s *Store) recordKey(id ledger.ID) string {
	b := append(append(make([]byte, 0, 64), s.prefix...), '{')
	return string(append(appendWord(appendWord(b, id.Hi), id.Lo), '}'))
}

// besideKey names what is remembered under id beside the cells of a group: it is found in
// the same slot of a cluster.
func (s *Store) besideKey(group uint64, id ledger.ID) string {
	b := appendTag(append(make([]byte, 0, 80), s.prefix...), group)
	return string(appendWord(appendWord(b, id.Hi), id.Lo))
}

// parseName is the inverse of cellKey without the prefix.
func parseName(name string) (k ledger.Key, err error) {
	if len(name) != nameLen || name[0] != '{' || name[1+wordLen] != '}' {
		return k, errors.New("redis: a key that is none of ours: " + name)
	}
	if k.Group, err = parseWord(name[1 : 1+wordLen]); err != nil {
		return k, err
	}
	k.Cell, err = parseWord(name[2+wordLen:])
	return k, err
}

// parseRecordKey is the inverse of recordKey. It reports false of any other key.
func (s *Store) parseRecordKey(key string) (id ledger.ID, ok bool) {
	words := strings.TrimPrefix(key, s.prefix)
	if len(words) != 2+2*wordLen || words[0] != '{' || words[len(words)-1] != '}' {
		return id, false
	}
	hi, err1 := parseWord(words[1 : 1+wordLen])
	lo, err2 := parseWord(words[1+wordLen : 1+2*wordLen])
	return ledger.ID{Hi: hi, Lo: lo}, err1 == nil && err2 == nil
}

func parseWord(s string) (uint64, error) {
	var word [8]byte
	if _, err := base.Strict().Decode(word[:], []byte(s)); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(word[:]), nil
}

// slots is how many slots a Cluster has. Which one a key is in depends on what stands
// between its braces: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
const slots = 16384

// slotOf returns the slot of a key of ours.
func slotOf(key string) uint16 {
	_, tag, _ := strings.Cut(key, "{")
	tag, _, _ = strings.Cut(tag, "}")
	crc := uint16(0)
	for i := range len(tag) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^tag[i]]
	}
	return crc % slots
}

// slotOfGroup returns the slot of the cells of a group.
func slotOfGroup(group uint64) uint16 {
	var b [2 + wordLen]byte
	return slotOf(string(appendTag(b[:0], group)))
}

// crcTable is of CRC-16/XMODEM, whose polynomial is 0x1021.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc >> 15
			crc = crc<<1 ^ carry*0x1021
		}
		table[i] = crc
	}
	return table
}()
