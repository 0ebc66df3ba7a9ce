package mcptest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// childVariable holds the options of a provider that a test binary is to be, as JSON.
const childVariable = "MCPTEST_PROVIDER"

// Main makes the test binary a provider over stdin and stdout, if its environment says so, and
// does not return then. TestMain calls it first. The process ends with its stdin, or
// by the tool "die".
func Main() {
	text := os.Getenv(childVariable)
	if text == "" {
		return
	}
	var o Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, "mcptest:", err)
		os.Exit(2)
	}
	p := New(o)
	p.exit = os.Exit
	if err := p.Serve(Pipe(os.Stdin, os.Stdout)); err != io.EOF {
		fmt.Fprintln(os.Stderr, "mcptest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Child returns the command without arguments, and the one variable of its environment, that
// start the test binary as a provider. Its TestMain has to call Main.
func Child(o Options) (command string, env string, err error) {
	command, err = os.Executable()
	if err != nil {
		return "", "", err
	}
	text, err := json.Marshal(o)
	return command, childVariable + "=" + string(text), err
}
