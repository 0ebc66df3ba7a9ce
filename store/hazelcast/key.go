package hazelcast

import (
	"encoding/base64"
	"encoding/binary"
	"strings"

	"github.com/sluicegate/sluice/ledger"
)

// The keys of the map. Every word of 64 bits is written as 11 characters of base64, so
// that a key has a fixed length and nothing in it is a caller's text:
//
//	c GROUP CELL     a cell
//	r ID             the record of a grant

const (
	wordLen = 11
	keyLen  = 1 + 2*wordLen
)

var base = base64.RawStdEncoding

func appendWord(b []byte, v uint64) []byte {
	var word [8]byte
	binary.BigEndian.PutUint64(word[:], v)
	return base.AppendEncode(b, word[:])
}

func cellKey(k ledger.Key) string {
	b := append(make([]byte, 0, keyLen), 'c')
	return string(appendWord(appendWord(b, k.Group), k.Cell))
}

func recordKey(id ledger.ID) string {
	b := append(make([]byte, 0, keyLen), 'r')
	return string(appendWord(appendWord(b, id.Hi), id.Lo))
}

// isRecord reports whether key is that of a record.
func isRecord(key string) bool { return key[0] == 'r' }

// parseCell is the inverse of cellKey.
func parseCell(key string) (k ledger.Key, ok bool) {
	if len(key) != keyLen || !strings.HasPrefix(key, "c") {
		return k, false
	}
	var a, b bool
	k.Group, a = parseWord(key[1 : 1+wordLen])
	k.Cell, b = parseWord(key[1+wordLen:])
	return k, a && b
}

// parseRecord is the inverse of recordKey.
func parseRecord(key string) (id ledger.ID) {
	id.Hi, _ = parseWord(key[1 : 1+wordLen])
	id.Lo, _ = parseWord(key[1+wordLen:])
	return id
}

func parseWord(s string) (uint64, bool) {
	var word [8]byte
	_, err := base.Strict().Decode(word[:], []byte(s))
	return binary.BigEndian.Uint64(word[:]), err == nil
}

// pattern matches the keys of the cells of a group, or of all, in a query.
func pattern(group uint64) string {
	if group == 0 {
		return "c%"
	}
	return "c" + string(appendWord(nil, group)) + "%"
}
