package metrics

import (
	"sync"

	"github.com/sluicegate/sluice/admin/tally"
)

// wordsMax is how many different values a label of a hook may have.
const wordsMax = 32

// words bounds a label whose values are chosen elsewhere in the program: the first
// wordsMax that look like words are known, everything else is Other. The zero value is
// ready.
type words struct {
	mu   sync.RWMutex
	seen map[string]bool
}

func (w *words) known(s string) string { return w.knownIf(s, wordLike) }

func (w *words) knownIf(s string, like func(string) bool) string {
	w.mu.RLock()
	ok := w.seen[s]
	w.mu.RUnlock()
	if ok {
		return s
	}
	if !like(s) {
		return tally.Other
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) >= wordsMax && !w.seen[s] {
		return tally.Other
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[s] = true
	return s
}

// wordLike reports whether s is 1 to 40 of a-z, 0-9, "_" and "-".
func wordLike(s string) bool {
	if s == "" || len(s) > 40 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
