package file

import "log/slog"

// Datasync is the sync that the store uses, for measuring the disk's own rate of it.
var Datasync = datasync

// Named is what a lock counts by.
var Named = named

// Acquire takes the lock at path and returns what gives it back.
func Acquire(path string) (release func() error, err error) {
	l, err := acquire(path, PIDCheck, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return l.release, nil
}
