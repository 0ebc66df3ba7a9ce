package metrics

import (
	"sync"

	"github.com/sluicegate/sluice/admin/tally"
)

// wordsMax is how many different values a label of a hook may usually have.
const wordsMax = 32

// words bounds a label whose values are chosen elsewhere in the program: the first that
// look like words are known, everything else is Other. The zero value is ready.
type words struct {
	most int // that are known beside those that are kept; zero is wordsMax, below zero none

	mu   sync.RWMutex
	kept map[string]bool
	seen map[string]bool
}

// keep makes words known for good, as they are. There may be any number: the caller has
// bounded them.
func (w *words) keep(list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept == nil {
		w.kept = map[string]bool{}
	}
	for _, s := range list {
		w.kept[s] = true
	}
}

func (w *words) known(s string) string { return w.knownIf(s, wordLike) }

func (w *words) knownIf(s string, like func(string) bool) string {
	w.mu.RLock()
	ok := w.seen[s] || w.kept[s]
	w.mu.RUnlock()
	if ok {
		return s
	}
	if !like(s) {
		return tally.Other
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) >= w.bound() && !w.seen[s] {
		return tally.Other
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[s] = true
	return s
}

func (w *words) bound() int {
	if w.most == 0 {
		return wordsMax
	}
	return w.most
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
