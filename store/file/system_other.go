//go:build !unix

package file

import (
	"errors"
	"os"
)

// Without a lock that the system keeps and drops there is no telling who uses a store.
// It cannot be opened here; the package compiles, so that programs that choose another
// store do.

var errSystem = errors.New("this operating system has no file lock that ends with its process; use the store in memory or Redis")

func flock(*os.File) (bool, error) { return false, errSystem }

func alive(int) bool { return true }

func syncDir(string) error { return nil }

func datasync(f *os.File) error { return f.Sync() }

func uptime() int64 { return 0 }

func bootID() string { return "" }

func startTime(int) string { return "" }

func networkShare(string) string { return "" }
