package file

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// datasync makes a file's data last through a power cut.
func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// uptime is the microseconds since the machine was started, sleep included.
func uptime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return t.Nano() / 1000
}

// bootID names the start of the machine that uptime counts from.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// startTime tells a process from others that have had its number. It is empty if there
// is no such process, or one that has ended and that its parent has not waited for: a
// container may have nobody who does.
func startTime(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The second field is the program's name in parentheses, which may hold anything; the
	// third is the state, the twenty-second the start in clock ticks since boot (proc(5)).
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 || slices.Contains([]string{"Z", "X"}, string(fields[0])) {
		return ""
	}
	return string(fields[19])
}

// shares are file systems on another machine, where neither a lock nor a sync can be
// relied on.
var shares = map[int64]string{
	unix.NFS_SUPER_MAGIC:  "NFS",
	unix.CIFS_SUPER_MAGIC: "CIFS",
	unix.SMB2_SUPER_MAGIC: "SMB",
	unix.SMB_SUPER_MAGIC:  "SMB",
	unix.AFS_SUPER_MAGIC:  "AFS",
	unix.CODA_SUPER_MAGIC: "Coda",
	unix.CEPH_SUPER_MAGIC: "Ceph",
	unix.V9FS_MAGIC:       "9P",
	unix.NCP_SUPER_MAGIC:  "NCP",
	0x01161970:            "GFS2",
	0x0bd00bd0:            "Lustre",
}

// networkShare returns the name of the network file system that dir is on, or "".
func networkShare(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return ""
	}
	if name := shares[int64(uint32(st.Type))]; name != "" {
		return name
	}
	if int64(uint32(st.Type)) != unix.FUSE_SUPER_MAGIC {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	var dev unix.Stat_t
	if err := unix.Stat(dir, &dev); err != nil {
		return ""
	}
	return fuseShare(string(mounts), fmt.Sprintf("%d:%d", unix.Major(dev.Dev), unix.Minor(dev.Dev)))
}

// remoteFuse are FUSE file systems that keep their files elsewhere.
var remoteFuse = []string{"sshfs", "s3fs", "gcsfuse", "glusterfs", "rclone", "davfs", "curlftpfs", "juicefs", "goofys", "blobfuse", "ceph"}

// fuseShare finds the mount of a device in the text of mountinfo and returns its type if
// it is a network file system.
func fuseShare(mounts, device string) string {
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[2] != device {
			continue
		}
		_, tail, _ := strings.Cut(line, " - ")
		kind, _, _ := strings.Cut(tail, " ")
		for _, remote := range remoteFuse {
			if strings.HasPrefix(kind, "fuse.") && strings.Contains(kind, remote) {
				return kind
			}
		}
	}
	return ""
}
