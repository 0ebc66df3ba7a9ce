package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

func newReset(s streams) *cobra.Command {
	var (
		at       remote
		all, yes bool
	)
	cmd := &cobra.Command{
		Use:   "reset [KEY]",
		Short: "Make the limits of a caller full again",
		Long: `Makes all time-based limits of one caller full, or with --all those of everybody. What
runs goes on: places of calls in flight stay taken.

KEY is the caller as status shows it.`,
		Example: `  sluice reset ip:203.0.113.9
  sluice reset --all --yes`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0, len(args) > 1:
				return usageError{errors.New("it takes one key, or --all")}
			case !all && len(args) == 0:
				return usageError{errors.New("whose limits? Give a key such as ip:203.0.113.9, or --all")}
			case all && !yes:
				return usageError{errors.New("this gives everybody full limits; add --yes if that is meant")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]string{"scope": "all"}
			if !all {
				body = map[string]string{"key": args[0]}
			}
			var answer struct{ Message string }
			if err := at.ask(cmd.Context(), http.MethodPost, "/actuator/ratelimits/reset", body, &answer); err != nil {
				return err
			}
			_, err := fmt.Fprintln(s.out, answer.Message)
			return err
		},
	}
	f := cmd.Flags()
	at.flags(f, defaultAdmin, "the `address` of the administration")
	f.BoolVar(&all, "all", false, "reset everybody")
	f.BoolVar(&yes, "yes", false, "yes, everybody")
	return cmd
}

// defaultAdmin is where the administration listens if nobody says otherwise.
const defaultAdmin = "127.0.0.1:9090"
