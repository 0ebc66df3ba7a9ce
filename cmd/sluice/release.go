package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/mcp"
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
		Use:   "release [--slot SLOT --request ID]",
		Short: "Free the slots of a call whose work has stopped",
		Long: `Frees what a call of the MCP broker holds whose provider has never said that its work has
ended. Make sure first that it has stopped: the slots go to other calls at once. What the
call has taken from windows and budgets stays taken.

Without flags it lists the calls that hold slots, those of processes that have ended too.`,
		Example: `  sluice release
  sluice release --slot scada --request brk-0c7e8c3e-3c36-4d11-9d3e-5a1f4c0c2b7a-17`,
		Args: func(cmd *cobra.Command, args []string) error {
			if (call.Slot == "") != (call.Request == "") {
				return usageError{errors.New("which call? Give --slot and --request, or neither for a list")}
			}
			return none(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if call.Slot == "" {
				return listHeld(cmd.Context(), s, &at)
			}
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

// listHeld prints the calls that hold slots, oldest first.
func listHeld(ctx context.Context, s streams, at *remote) error {
	var t table
	t.row("SLOT", "REQUEST", "TOOL", "CALLER", "RULES", "STATE", "FOR")
	const page = 500
	for from, total := 0, 1; from < total; from += page {
		var d mcp.Diagnosis
		if err := at.ask(ctx, http.MethodGet, fmt.Sprintf("%s?offset=%d&limit=%d", brokerPath, from, page), nil, &d); err != nil {
			return err
		}
		total = d.Calls.Total
		for i := range d.Calls.Calls {
			c := &d.Calls.Calls[i]
			if len(c.Rules) > 0 {
				t.row(c.Slot, c.RequestID, c.Tool, c.Identity, strings.Join(c.Rules, " and "), string(c.State), milliseconds(c.AgeMs).Round(time.Second).String())
			}
		}
	}
	if len(t) == 1 {
		_, err := fmt.Fprintln(s.out, "No call holds a slot.")
		return err
	}
	return t.write(s.out, "")
}
