package identity

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// KeyPrefix begins every key that [NewKey] makes, so that scanners find leaked ones.
const KeyPrefix = "slk_"

// maxCredential bounds an API key and a token in bytes. Longer ones are refused unread.
const maxCredential = 8 << 10

// A KeyRecord is one line of a key file: a JSON object. It holds the key's digest and
// never the key. Unknown fields are an error.
type KeyRecord struct {
	// Digest is HMAC-SHA256(secret, key) as 64 hex digits.
	Digest string `json:"digest"`
	// Name is for people: who has the key, what for.
	Name string `json:"name,omitempty"`
	// Tier is the caller's class; empty is the default tier.
	Tier string `json:"tier,omitempty"`
	// Tenant is the account the key belongs to, without "tenant:".
	Tenant string `json:"tenant,omitempty"`
	// Groups are further subjects for rules to match, such as "role:batch".
	Groups []string `json:"groups,omitempty"`
	// Expires is the end of the key's life; nil is never.
	Expires *time.Time `json:"expires,omitempty"`
	// Disabled turns the key off and keeps the line.
	Disabled bool `json:"disabled,omitempty"`
}

// NewKey makes a key of 256 random bits and the record of it: rec with Digest set.
// The key is returned this once and is stored nowhere.
func NewKey(secret []byte, rec KeyRecord) (raw string, line []byte, err error) {
	if err := CheckSecret(secret); err != nil {
		return "", nil, err
	}
	raw = KeyPrefix + rand.Text() + rand.Text()
	d := newHasher(secret).sum(raw)
	rec.Digest = hex.EncodeToString(d[:])
	line, err = json.Marshal(rec)
	if err != nil {
		return "", nil, fmt.Errorf("identity: writing the key record: %w", err)
	}
	return raw, append(line, '\n'), nil
}

// Keys are the API keys of one key file. They never change; a reload reads new ones.
// The methods are safe for concurrent use.
type Keys struct {
	hashers []*hasher // the current secret first
	records map[digest]*key
}

type key struct {
	digest    digest
	principal Principal // Tier may still be empty
	expires   time.Time
	disabled  bool
}

// OpenKeys reads the key file at path. The first secret is in force; further ones are
// earlier ones whose keys still count. Errors name file and line.
func OpenKeys(path string, secrets ...[]byte) (*Keys, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("identity: opening the key file: %w", err)
	}
	defer f.Close()
	return ReadKeys(f, path, secrets...)
}

// ReadKeys reads a key file from r: one [KeyRecord] a line, blank lines and lines that
// begin with # apart. name stands in errors.
func ReadKeys(r io.Reader, name string, secrets ...[]byte) (*Keys, error) {
	if len(secrets) == 0 {
		return nil, errors.New("identity: a key file needs the secret that its digests were made with")
	}
	k := &Keys{records: map[digest]*key{}}
	for _, s := range secrets {
		if err := CheckSecret(s); err != nil {
			return nil, err
		}
		k.hashers = append(k.hashers, newHasher(s))
	}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		if err := k.add(text); err != nil {
			return nil, fmt.Errorf("identity: %s:%d: %w", name, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("identity: reading %s: %w", name, err)
	}
	return k, nil
}

func (k *Keys) add(line []byte) error {
	var rec KeyRecord
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&rec); err != nil {
		return fmt.Errorf("not a key record: %w", err)
	}
	if d.More() {
		return errors.New("more than one record on the line")
	}
	raw, err := hex.DecodeString(rec.Digest)
	if err != nil || len(raw) != sha256.Size {
		return fmt.Errorf("digest is not %d hex digits; `sluice key new` writes one", 2*sha256.Size)
	}
	e := &key{digest: digest(raw), disabled: rec.Disabled}
	if _, double := k.records[e.digest]; double {
		return errors.New("this key stands in the file already")
	}
	if rec.Expires != nil {
		e.expires = *rec.Expires
	}
	e.principal = Principal{
		Subject: "apikey:" + e.digest.text(),
		Tier:    rec.Tier,
		Groups:  rec.Groups,
		Label:   rec.Name,
	}
	if rec.Tenant != "" {
		if e.principal.Tenant = tenantText(rec.Tenant); e.principal.Tenant == "" {
			return fmt.Errorf("tenant %q is blank, too long, or has unprintable characters", rec.Tenant)
		}
	}
	k.records[e.digest] = e
	return nil
}

// Len returns how many keys there are, disabled ones included.
func (k *Keys) Len() int { return len(k.records) }

// Lookup returns the principal that raw belongs to, its Tier empty if the record has
// none, or one of [ErrUnknownKey], [ErrDisabled], [ErrExpired], [ErrTooLong]. Its time
// does not depend on how much of raw is right: it looks for a keyed digest.
func (k *Keys) Lookup(raw string) (Principal, error) {
	if len(raw) > maxCredential {
		return Principal{}, ErrTooLong
	}
	for _, h := range k.hashers {
		d := h.sum(raw)
		e, ok := k.records[d]
		if !ok || !hmac.Equal(e.digest[:], d[:]) {
			continue
		}
		switch {
		case e.disabled:
			return Principal{}, ErrDisabled
		case !e.expires.IsZero() && !time.Now().Before(e.expires):
			return Principal{}, ErrExpired
		}
		return e.principal, nil
	}
	return Principal{}, ErrUnknownKey
}

// tenantText returns the identity text of a tenant, or "" for a name that is blank, has
// more than 128 bytes, or anything but printable ASCII: such a header counts as missing.
func tenantText(id string) string {
	id = strings.TrimSpace(id)
	if !plain(id, 128) {
		return ""
	}
	return "tenant:" + id
}

// plain reports whether s has 1 to max bytes, all printable ASCII without blanks.
func plain(s string, max int) bool {
	if s == "" || len(s) > max {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
