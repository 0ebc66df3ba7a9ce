//go:build unix

package file

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// flock locks f for this process, and reports false if another one has it. The lock goes
// when f is closed or the process ends, however it ends.
func flock(f *os.File) (bool, error) {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, os.NewSyscallError("flock", err)
		}
	}
}

// alive reports whether there is a process with this number. One that we may not ask is
// alive.
func alive(pid int) bool {
	err := unix.Kill(pid, 0)
	return err == nil || errors.Is(err, unix.EPERM)
}

// syncDir makes the names in a directory last through a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
