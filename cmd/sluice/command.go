package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// streams are where a command writes: answers to out, everything else to err.
type streams struct{ out, err io.Writer }

// errShown says that a command has failed and has said why.
var errShown = errors.New("shown already")

// A usageError is a command line that cannot be understood.
type usageError struct{ error }

// run executes one command line and returns the exit code: 0 if all is well, 1 if not,
// 2 if the command line is wrong.
func run(ctx context.Context, args []string, s streams) int {
	root := newRoot(s)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errShown):
		return 1
	}
	if _, ok := errors.AsType[configError](err); ok {
		fmt.Fprintf(s.err, "sluice: the configuration has problems\n%v\n", err)
		return 1
	}
	fmt.Fprintln(s.err, "sluice:", err)
	if _, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintf(s.err, "Try: %s --help\n", cmd.CommandPath())
		return 2
	}
	return 1
}

func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "The admission layer for services and agents",
		Long: `sluice stands in front of servers and decides when a call may start. Each caller
gets its share; whoever asks for more is told when to come back.

  sluice serve           a demo on :8080, with a page about it on 127.0.0.1:9090
  sluice check FILE      says what is wrong with a configuration
  sluice explain /path   says what would happen to a request, and why`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("there is no command %q", args[0])}
			}
			return nil
		},
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		newServe(s), newCheck(s), newExplain(s), newKey(s),
		newStatus(s), newReset(s), newRelease(s), newMCP(s), newLedger(s), newMockLLM(s), newMockMCP(s), newVersion(s),
	)
	for _, cmd := range root.Commands() {
		if cmd.Name() != "check" {
			cmd.ValidArgsFunction = cobra.NoFileCompletions // its arguments are no files
		}
	}
	return root
}

// none is an argument check for commands without arguments.
func none(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("it takes no arguments, and %q is one", args[0])}
	}
	return nil
}

// complete lets shells complete the values of a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is not there: a mistake in this program
	}
}
