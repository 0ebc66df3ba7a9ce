//go:build unix && !linux

package file

import "os"

// Systems other than Linux are not asked for more than the standard library knows: a
// sync of the file with its size, no time since the start, no start time of a process,
// and no type of a file system.

func datasync(f *os.File) error { return f.Sync() }

func uptime() int64 { return 0 }

func bootID() string { return "" }

func startTime(int) string { return "" }

func networkShare(string) string { return "" }
