//go:build !unix

package child

import "os/exec"

// ownGroup does nothing: there are no process groups. What the program has started itself
// may outlive it, and keeps the link up for as long as it holds the program's output.
func ownGroup(*exec.Cmd) {}

// terminate does nothing: there is no signal that asks.
func terminate(*exec.Cmd) {}

// kill ends the program.
func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
