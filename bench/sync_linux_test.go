package bench

import (
	"os"
	"syscall"
)

// datasync makes what was written to f last, as the file store does.
func datasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
