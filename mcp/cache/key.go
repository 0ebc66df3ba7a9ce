package cache

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"unicode/utf8"
)

// mostParams bounds the parameters of a call that is looked up. Making a key costs time
// that grows with them, and who sends so much seldom sends the same again.
const mostParams = 64 << 10

// A Scope says who may be given a result again. The zero value is nobody: nothing is
// kept under it.
type Scope struct {
	kind scopeKind
	name string
}

type scopeKind byte

const (
	nobody scopeKind = iota
	subject
	shared
)

// Subject is the scope of one caller, by its identity: what it has asked for is given to
// nobody else.
func Subject(identity string) Scope { return Scope{subject, identity} }

// Shared is a scope that an operator has declared: its results are given to all who are
// in it, and of whom the caller of this package says so. No subject is in it by its name.
func Shared(name string) Scope { return Scope{shared, name} }

// A Call is what is asked of a provider.
type Call struct {
	Slot, Tool string
	Scope      Scope
	// Params are the parameters of tools/call as they were received.
	Params json.RawMessage
}

// A Key stands for a call. Calls have the same Key if they ask the same tool of the same
// slot, in the same scope, with the same arguments (M-093). The order of
// members does not matter, and neither do blanks and escapes. Numbers are compared as
// they are written: 1 and 1.0 have different keys, which can cost a hit, while 2^53 and
// 2^53+1 never share one. "_meta" is no part of it, nor is the protocol's revision.
//
// The zero Key stands for a call that must not be answered from a cache. A Key has no
// text of the call but the slot's name.
type Key struct {
	digest digest
	slot   string
	drops  uint64
}

type digest [sha256.Size]byte

// IsZero reports whether k stands for no call.
func (k Key) IsZero() bool { return k.digest == digest{} }

// Key returns the key of a call, made before it is sent; a result is kept only if the
// slot was not dropped since. It is the zero Key if
//   - the scope is the zero Scope;
//   - the parameters have other members than name, arguments and _meta: an answer to a
//     question (inputResponses), a task, or something that this package does not know;
//   - the arguments have a member twice in one object, or half of a surrogate pair: two
//     providers could read two things in them;
//   - the parameters are larger than 64 KiB or cannot be read.
func (c *Cache) Key(call Call) Key {
	if call.Scope.kind == nobody || len(call.Params) > mostParams {
		return Key{}
	}
	arguments, ok := argumentsOf(call.Params)
	if !ok {
		return Key{}
	}
	text := make([]byte, 0, len(arguments)+len(call.Slot)+len(call.Tool)+len(call.Scope.name)+32)
	text = appendPart(text, call.Slot)
	text = appendPart(text, call.Tool)
	text = append(text, byte(call.Scope.kind))
	text = appendPart(text, call.Scope.name)
	text = append(text, arguments...)
	mac := hmac.New(sha256.New, c.secret[:])
	mac.Write(text)
	k := Key{slot: call.Slot}
	mac.Sum(k.digest[:0])
	c.mu.Lock()
	defer c.mu.Unlock()
	k.drops = c.drops[call.Slot]
	return k
}

// appendPart appends s so that where it ends is part of the text.
func appendPart(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// argumentsOf returns the arguments of parameters in the one form that all spellings of
// them have, and whether they have one.
func argumentsOf(params json.RawMessage) ([]byte, bool) {
	var members map[string]any
	in := json.NewDecoder(bytes.NewReader(params))
	in.UseNumber()
	if in.Decode(&members) != nil {
		return nil, false
	}
	for name := range members {
		if name != "name" && name != "arguments" && name != "_meta" {
			return nil, false
		}
	}
	all, err := json.Marshal(members)
	if err != nil || colons(all) != colons(params) || bytes.ContainsRune(all, utf8.RuneError) {
		return nil, false
	}
	arguments, ok := members["arguments"]
	if !ok {
		return nil, true
	}
	one, err := json.Marshal(arguments)
	return one, err == nil
}

// colons counts the members in a JSON text: the colons that are not in strings. Reading
// keeps one of the members of one name, so there are fewer of them in what was read.
func colons(text []byte) (n int) {
	inString := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case c == ':' && !inString:
			n++
		}
	}
	return n
}
