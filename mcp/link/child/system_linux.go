package child

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup starts the program in a process group of its own, and has it killed when the
// broker dies.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// wait waits until the program has ended, ends its group, and returns how it ended. The
// program is reaped last: until then its number, which is its group's, is nobody else's.
func wait(cmd *exec.Cmd, endGroup func()) error {
	for unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	endGroup()
	return cmd.Wait()
}
