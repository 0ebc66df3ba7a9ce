//go:build unix && !linux

package file

import "os"

// Systems other than Linux are not asked for more than the standard library knows: a
// sync of the file with its size, no time since the start, no start time of a process,
// and no type of a file system.

func datasync(f *os.File) error { return f.Sync() }

func uptime() (micros int64, boot string) { return 0, "" }

func startTime(int) string { return "" }

func networkShare(string) string { return "" }
