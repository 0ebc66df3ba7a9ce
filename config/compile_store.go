package config

import (
	"net/url"
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

// store refuses a store that is not told what it needs.
func (k *compiler) store() {
	k.storeFile()
	s := &k.c.Store
	switch file := s.Backend == "file"; {
	case file && s.File == nil:
		k.problem(&s.File, CodeRequired, "is missing; the store needs a path, such as {path: sluice.ledger}")
	case s.Backend == "redis" && s.Redis == nil:
		k.problem(&s.Redis, CodeRequired, "is missing; the store needs an address and a secret, such as {uri: redis://localhost:6379/0, keySecret: file:store-secret}")
	case s.Backend == "hazelcast" && s.Hazelcast == nil:
		k.problem(&s.Hazelcast, CodeRequired, "is missing; the store needs members and a secret, such as {addresses: [localhost:5701], keySecret: file:store-secret}")
	case !file && s.File != nil:
		k.problem(&s.File, WarnMissing, "nothing is kept there, because the backend is %s; set backend: file, or remove it", s.Backend)
	}
	if s.File != nil {
		k.fileStore(s.File)
	}
	if s.Redis != nil {
		k.redisStore(s.Redis)
	}
	if s.Hazelcast != nil {
		k.hazelcastStore(s.Hazelcast)
	}
	k.brokerRecords()
}

func (k *compiler) fileStore(f *FileStore) {
	if f.RetentionMs != nil {
		if k.given(&f.Retention) {
			k.problem(&f.RetentionMs, CodeConflict, "the time is given already by retention; keep one")
		}
		f.Retention = k.milliseconds(&f.RetentionMs, *f.RetentionMs)
	}
	k.keySecret(&f.KeySecret)
}

// keySecret refuses a secret that can be guessed.
func (k *compiler) keySecret(s *Secret) {
	const least = 16
	if n := len(s.Reveal()); n > 0 && n < least {
		k.problem(s, CodeSecret, "has %d bytes and can be guessed; use at least %d random ones", n, least)
	}
}

// redisStore checks the section also while another backend is set, and demands the secret
// only if it is used.
func (k *compiler) redisStore(r *RedisStore) {
	k.keySecret(&r.KeySecret)
	u, err := url.Parse(r.URI.Reveal())
	switch {
	case err != nil, !slices.Contains([]string{"redis", "rediss", "unix"}, u.Scheme): // without the URI, which may hold a password
		k.problem(&r.URI, CodeValue, "is no address of a Redis; write redis://host:port/database, rediss:// for TLS, or unix:///path")
	case r.TLS != nil && u.Scheme != "rediss":
		k.problem(&r.TLS, CodeConflict, "the URI does not ask for TLS; write it with rediss://, or remove this")
	}
	if r.TLS != nil {
		k.clientTLS(r.TLS)
	}
	if k.c.Store.Backend == "redis" {
		k.shared(&r.KeySecret)
	}
}

func (k *compiler) hazelcastStore(h *HazelcastStore) {
	k.keySecret(&h.KeySecret)
	if len(h.Addresses) == 0 && k.given(&h.Addresses) {
		k.problem(&h.Addresses, CodeRequired, "names no member; write one at least, such as [localhost:5701]")
	}
	if (h.User == "") != h.Password.IsZero() {
		k.problem(pick[any](h.User == "", &h.User, &h.Password), CodeRequired, "is missing; a user has a name and a password")
	}
	if h.TLS != nil {
		k.clientTLS(h.TLS)
	}
	if k.c.Store.Backend == "hazelcast" {
		k.shared(&h.KeySecret)
	}
}

func (k *compiler) clientTLS(t *ClientTLS) {
	if (t.CertFile == "") != (t.KeyFile == "") {
		k.problem(pick(t.CertFile == "", &t.CertFile, &t.KeyFile), CodeRequired, "is missing; a certificate needs certFile and keyFile")
	}
}

// shared demands of a store of many processes the secret that all of them have.
func (k *compiler) shared(secret *Secret) {
	if secret.IsZero() {
		k.problem(secret, CodeRequired, "is missing; every replica needs the same, or none finds the others' counters: "+
			"make one with `sluice key secret > store-secret`, and write file:store-secret or ${NAME}")
	}
}

// processes demands to know how many processes share a store if a rule is to be decided
// by this one's share while the store fails.
func (k *compiler) processes() {
	var n **int64
	switch s := &k.c.Store; {
	case s.Backend == "redis" && s.Redis != nil:
		n = &s.Redis.Processes
	case s.Backend == "hazelcast" && s.Hazelcast != nil:
		n = &s.Hazelcast.Processes
	}
	if n == nil || *n != nil {
		return
	}
	for i := range k.c.policy.Rules {
		if r := &k.c.policy.Rules[i]; r.OnStoreError == sluice.FailLocal {
			k.problem(n, CodeRequired, "is missing; rule %q at %s has onStoreError: local, so this process has to know its share: say how many processes use the store", r.ID, r.Source)
			return
		}
	}
}

// forgivable is how much a crash may forgive: units that would have come back by
// themselves in less than that are not worth a write for each call.
const forgivable = limit.Hour

// surviving returns r, told whether its counters survive a crash: as the file says, or by
// what it limits. Budgets are money, a pause is somebody else's word, and slots of work
// that goes on without us must not be given out twice.
func surviving(r sluice.Rule, volatile *bool) sluice.Rule {
	if volatile != nil {
		r.Volatile = *volatile
		return r
	}
	r.Volatile = r.Settle != sluice.Keep
	for i := range r.Limits {
		switch l := &r.Limits[i].Limit; {
		case l.OnRelease() && goesOn(&r.Match), l.Kind == limit.KindCooldown, untilFull(l) >= float64(forgivable):
			r.Volatile = false
		}
	}
	return r
}

// untilFull is how many microseconds a limit takes to come back as a whole; zero if time
// does not bring it back.
func untilFull(l *limit.Limit) float64 {
	if l.Kind == limit.KindBucket && l.Max > 0 {
		return float64(l.Per) * float64(l.Burst) / float64(l.Max)
	}
	return float64(l.Per)
}

// goesOn reports whether m is about work that may outlive this process: native work and
// calls of tools. All other calls end with the connection that they came on.
func goesOn(m *sluice.Match) bool {
	kinds := m.Is[sluice.Kind]
	return len(kinds) == 0 || slices.Contains(kinds, KindTool) || slices.Contains(kinds, KindOperation)
}
