package front

import (
	"errors"
	"io"

	"golang.org/x/sync/semaphore"
)

// modest is what a message may have in bytes without taking room from others.
const modest = 64 << 10

// errCrowded says that the long messages under way leave no room for one more.
var errCrowded = errors.New("front: no room for a long message")

// A load is what one message takes of the room that all long ones share, from its reading to
// its answer. It grows with what has arrived: a client that announces much and sends little
// keeps nobody out. The zero load has taken nothing.
type load struct {
	room  *semaphore.Weighted
	taken int64
}

// read reads a message to its end. It returns errCrowded when there is no room for it.
func (l *load) read(r io.Reader, room *semaphore.Weighted) ([]byte, error) {
	l.room = room
	b := make([]byte, 0, 512)
	for {
		if len(b) == cap(b) {
			more := int64(cap(b))
			if more >= modest {
				if !room.TryAcquire(more) {
					return nil, errCrowded
				}
				l.taken += more
			}
			b = append(make([]byte, 0, 2*cap(b)), b...) // exactly what was taken
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case err == io.EOF:
			return b, nil
		case err != nil:
			return nil, err
		}
	}
}

// release gives the room back.
func (l *load) release() {
	if l.taken > 0 {
		l.room.Release(l.taken)
	}
	l.taken = 0
}
