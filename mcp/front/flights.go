package front

import "sync"

// flights counts the requests that are under way, and keeps them below a bound.
type flights struct {
	most int

	mu   sync.Mutex
	n    int
	idle chan struct{} // closed once n is 0; nil until somebody waits for that
}

// enter counts one, and reports false if there are too many.
func (f *flights) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n >= f.most {
		return false
	}
	f.n++
	return true
}

func (f *flights) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	f.tellLocked()
}

// drained is closed once none is under way.
func (f *flights) drained() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.idle == nil {
		f.idle = make(chan struct{})
	}
	idle := f.idle
	f.tellLocked()
	return idle
}

func (f *flights) tellLocked() {
	if f.n == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}
