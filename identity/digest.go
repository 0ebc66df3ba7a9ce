package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
	"sync"
)

// A digest is HMAC-SHA256(secret, credential). A plain hash would let whoever sees a
// dump of state join it with leaked keys, and guess short ones.
type digest [sha256.Size]byte

// text returns the digest's first 32 hex digits, which is what subjects show.
func (d *digest) text() string { return hex.EncodeToString(d[:16]) }

// A hasher computes keyed digests. Its methods are safe for concurrent use.
type hasher struct{ pool sync.Pool }

func newHasher(secret []byte) *hasher {
	secret = append([]byte(nil), secret...)
	return &hasher{pool: sync.Pool{New: func() any { return &mac{Hash: hmac.New(sha256.New, secret)} }}}
}

// A mac is one goroutine's hash with the memory it needs, so that a lookup allocates
// nothing.
type mac struct {
	hash.Hash
	in  []byte
	out digest
}

func (h *hasher) sum(parts ...string) digest {
	m := h.pool.Get().(*mac)
	m.Reset()
	m.in = m.in[:0]
	for i, p := range parts {
		if i > 0 {
			m.in = append(m.in, 0)
		}
		m.in = append(m.in, p...)
	}
	m.Write(m.in)
	m.Sum(m.out[:0])
	d := m.out
	clear(m.in)
	h.pool.Put(m)
	return d
}

// MinSecret is the least length of a key secret in bytes.
const MinSecret = 16

// wellKnown are secrets that stand in documentation, examples and default files, and
// that some installations therefore run with.
var wellKnown = []string{"spector-dev-key", "changeme", "change-me", "secret", "password", "default", "example", "insecure", "development"}

// CheckSecret says what is wrong with a key secret: too short, one byte over and over,
// or a well-known word. The digests of all API keys hang on it.
func CheckSecret(secret []byte) error {
	if len(secret) < MinSecret {
		return fmt.Errorf("identity: the key secret has %d bytes; it needs at least %d (try: openssl rand -hex 32)", len(secret), MinSecret)
	}
	text := strings.ToLower(string(secret))
	if strings.Trim(text, text[:1]) == "" {
		return errors.New("identity: the key secret is one byte repeated; choose a random one (try: openssl rand -hex 32)")
	}
	for _, w := range wellKnown {
		// A padded or repeated well-known word is as guessable as the word.
		if rest := strings.ReplaceAll(text, w, ""); len(text)-len(rest) >= len(text)/2 {
			return fmt.Errorf("identity: the key secret is the well-known %q, padded or not; choose a random one (try: openssl rand -hex 32)", w)
		}
	}
	return nil
}
