//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// writesMayFail has a write that goes beyond the limit on a file's size fail, as one to a
// full disk does. Otherwise the system's signal would end the process.
func writesMayFail() { signal.Ignore(syscall.SIGXFSZ) }
