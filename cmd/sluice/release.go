package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

func newRelease(s streams) *cobra.Command {
	var (
		at   remote
		call struct {
			Slot    string `json:"slot"`
			Request string `json:"requestId"`
		}
	)
	cmd := &cobra.Command{
		Use:   "release --slot SLOT --request ID",
		Short: "Free the slots of a call whose work has stopped",
		Long: `Frees what a call of the MCP broker holds whose provider has never said that its work has
ended. Make sure first that it has stopped: the slots go to other calls at once. What the
call has taken from windows and budgets stays taken.

The tool broker_diagnose of the slot _broker shows the calls that hold slots, with slot and id.`,
		Example: `  sluice release --slot scada --request brk-0c7e…-17`,
		Args: func(cmd *cobra.Command, args []string) error {
			if call.Slot == "" || call.Request == "" {
				return usageError{errors.New("which call? Give --slot and --request")}
			}
			return none(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			var answer struct{ Note string }
			if err := at.ask(cmd.Context(), http.MethodPost, "/actuator/mcp/release", call, &answer); err != nil {
				return err
			}
			_, err := fmt.Fprintln(s.out, answer.Note)
			return err
		},
	}
	f := cmd.Flags()
	at.flags(f, defaultAdmin, "the `address` of the administration")
	f.StringVar(&call.Slot, "slot", "", "the `slot` of the call")
	f.StringVar(&call.Request, "request", "", "the broker's `id` of the call")
	return cmd
}
