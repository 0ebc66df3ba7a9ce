//go:build !linux

package bench

import "os"

// datasync makes what was written to f last, as the file store does.
func datasync(f *os.File) error { return f.Sync() }
