package hazelcast

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluicegate/sluice/limit"
)

// readAll returns the entries of keys. It tries until it is answered, or the store is
// closed.
func (s *Store) readAll(keys []string) (map[string]*entry, error) {
	found := make(map[string]*entry, len(keys))
	if len(keys) == 0 {
		return found, nil
	}
	asked := make([]any, len(keys))
	for i, k := range keys {
		asked[i] = k
		found[k] = &entry{value: &value{}, asked: time.Now()}
	}
	for {
		answer, err := ask(s, func(ctx context.Context) (map[string]any, error) { return s.getAll(ctx, asked) })
		if err == nil {
			for key, raw := range answer {
				if err := found[key].fill(raw); err != nil {
					return nil, err
				}
			}
			return found, nil
		}
		if err := s.pause(); err != nil {
			return nil, err
		}
	}
}

// getAll asks for several values, or for one, which is cheaper to ask for by itself.
func (s *Store) getAll(ctx context.Context, keys []any) (map[string]any, error) {
	found := make(map[string]any, len(keys))
	if len(keys) == 1 {
		raw, err := s.books.Get(ctx, keys[0])
		found[keys[0].(string)] = raw
		return found, err
	}
	list, err := s.books.GetAll(ctx, keys...)
	for _, e := range list {
		found[e.Key.(string)] = e.Value
	}
	return found, err
}

// reread makes e the entry of key as it is now.
func (s *Store) reread(key string, e *entry) error {
	found, err := s.readAll([]string{key})
	if err == nil {
		*e = *found[key]
	}
	return err
}

// fill makes e the entry whose value the map says is raw.
func (e *entry) fill(raw any) (err error) {
	if raw == nil {
		return nil
	}
	b, ok := raw.([]byte)
	if !ok {
		return errValue
	}
	e.raw = b
	e.value, err = decodeValue(b)
	return err
}

// set makes next the value of key if the map still has that of e. It notes in e what the
// map has then. If the answer is lost it asks until it is known whether that was done: nothing is done
// twice, since a value never comes back. It fails if the store is closed.
func (s *Store) set(key string, e *entry, next *value) (won bool, err error) {
	raw := next.encode()
	for {
		if e.raw == nil && time.Since(e.asked) > leftFor/2 {
			// There was nothing, long ago. What was there since may have been swept up.
			return false, s.reread(key, e)
		}
		was, err := ask(s, func(ctx context.Context) (any, error) { return s.swap(ctx, key, e.raw, raw, next) })
		if err == nil && was == nil {
			break
		}
		now := entry{value: &value{}, asked: time.Now()}
		switch {
		case err != nil:
			if closed := s.pause(); closed != nil {
				return false, closed
			}
			fallthrough
		case was == another:
			if unread := s.reread(key, &now); unread != nil {
				return false, unread
			}
		default:
			if bad := now.fill(was); bad != nil {
				return false, bad
			}
		}
		if bytes.Equal(now.raw, raw) || now.bears(e, next) {
			break
		}
		if err == nil || !bytes.Equal(now.raw, e.raw) {
			*e = now
			return false, nil
		}
	}
	timed := e.raw == nil && next.life(s.retention) > 0
	*e = entry{raw: raw, value: next, asked: time.Now()}
	if !timed {
		s.keepFor(key, e)
	}
	return true, nil
}

// bears reports whether now has come out of writing next over e, although others have
// written since.
func (now *entry) bears(e *entry, next *value) bool {
	w := next.writers
	return next.intent == nil && len(w) > 0 && now.value.last(w[0].process) == w[0].pass && e.value.last(w[0].process) != w[0].pass
}

// another stands for a value of the map that is not the one expected.
const another = false

// swap asks the map once. It returns nil if that was done, and otherwise the value that
// the map has, or another if it does not say.
func (s *Store) swap(ctx context.Context, key string, old, raw []byte, next *value) (was any, err error) {
	if old != nil {
		same, err := s.books.ReplaceIfSame(ctx, key, old, raw)
		if same {
			return nil, err
		}
		return another, err
	}
	if ttl := ttlOf(next.life(s.retention)); ttl > 0 {
		return s.books.PutIfAbsentWithTTL(ctx, key, raw, ttl)
	}
	return s.books.PutIfAbsent(ctx, key, raw)
}

// keepFor sees to it that the map does not keep e for ever, as it keeps all that replaces
// a value: it sets the time after which nothing of it matters, or leaves it to the broom if
// time does not tell.
func (s *Store) keepFor(key string, e *entry) {
	v := e.value
	switch life := v.life(s.retention); {
	case life > 0:
		go s.expire(key, ttlOf(life), v.writers[0].at)
	case v.intent == nil && v.mark == nil && v.state.useless(v.writers[0].at, s.retention):
		s.broom.later(key, e.raw)
	}
}

// expire sets how long the map keeps the value of a time. It is too late for that in a
// process that was stopped in between: others may have made a value that lives longer.
func (s *Store) expire(key string, ttl time.Duration, at limit.Micros) {
	if ttl == 0 || s.clock.now()-at > limit.Second {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.wait)
	defer cancel()
	s.note(s.books.SetTTL(ctx, key, ttl))
}

const (
	ttlMargin = 10 * time.Second
	ttlMost   = 10 * 365 * 24 * time.Hour
)

// ttlOf is the time to live of what matters for life; zero is for ever. The map counts
// whole seconds and drops up to one.
func ttlOf(life limit.Micros) time.Duration {
	if life <= 0 || life.Duration() > ttlMost {
		return 0
	}
	return life.Duration().Truncate(time.Second) + ttlMargin
}

// life is how long the map has to keep v; zero is until it is replaced or swept up. What
// is half done is kept.
func (v *value) life(retention limit.Micros) limit.Micros {
	if v.intent != nil || v.mark != nil || len(v.writers) == 0 {
		return 0
	}
	return v.state.life(v.writers[0].at, retention)
}

// ask asks the map for something, for a bounded time.
func ask[T any](s *Store, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.wait)
	defer cancel()
	answer, err := f(ctx)
	s.note(err)
	return answer, err
}

// pause waits before the map is asked again: for a moment, or until the breaker closes.
// It fails when the store is closed.
func (s *Store) pause() error {
	for {
		select {
		case <-s.ctx.Done():
			return ErrClosed
		case <-time.After(10*time.Millisecond + rand.N(10*time.Millisecond)):
		}
		if !s.breaker.IsOpen() {
			return nil
		}
	}
}

// A cache remembers what this process wrote last.
type cache struct {
	mu      sync.Mutex
	entries map[string]*entry
}

const maxCached = 8192

// get takes out the entry of key, nil if there is none.
func (c *cache) get(key string) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	delete(c.entries, key)
	return e
}

// keep remembers entries, in place of some others if there are too many.
func (c *cache) keep(entries map[string]*entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range entries {
		if len(c.entries) >= maxCached {
			for other := range c.entries {
				delete(c.entries, other)
				break
			}
		}
		e.cached = true
		c.entries[key] = e
	}
}
