package config

import (
	"slices"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

// store refuses a store that is known and not there, and one that is not told where its
// books are.
func (k *compiler) store() {
	s := &k.c.Store
	switch file := s.Backend == "file"; {
	case !slices.Contains(servedStores, s.Backend):
		k.problem(&s.Backend, CodeStore, "this version has no store %q; available: %s", s.Backend, strings.Join(servedStores, ", "))
	case file && s.File == nil:
		k.problem(&s.File, CodeRequired, "is missing; the store needs a path, such as {path: sluice.ledger}")
	case !file && s.File != nil:
		k.problem(&s.File, WarnMissing, "nothing is kept there, because the backend is %s; set backend: file, or remove it", s.Backend)
	}
	if s.File != nil {
		k.fileStore(s.File)
	}
}

func (k *compiler) fileStore(f *FileStore) {
	if f.RetentionMs != nil {
		if k.given(&f.Retention) {
			k.problem(&f.RetentionMs, CodeConflict, "the time is given already by retention; keep one")
		}
		f.Retention = k.milliseconds(&f.RetentionMs, *f.RetentionMs)
	}
	const least = 16
	if n := len(f.KeySecret.Reveal()); n > 0 && n < least {
		k.problem(&f.KeySecret, CodeSecret, "has %d bytes and can be guessed; use at least %d random ones", n, least)
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
