//go:build !linux

package child

import "os/exec"

// wait waits until the program has ended, ends its group, and returns how it ended. Should
// the group be empty by then, its number could be another's for that moment.
func wait(cmd *exec.Cmd, endGroup func()) error {
	err := cmd.Wait()
	endGroup()
	return err
}
