package main

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/mcp/stdio"
)

// brokerToken is where the token of a client is looked for if no file is given.
const brokerToken = "SLUICE_MCP_TOKEN"

func newMCP(s streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Use the MCP broker of a running sluice",
		Args:  none,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newStdio(s))
	return cmd
}

func newStdio(s streams) *cobra.Command {
	var tokenFile string
	o := stdio.Options{Out: s.out}
	cmd := &cobra.Command{
		Use:   "stdio --slot SLOT",
		Short: "Connect a client that speaks over standard input and output",
		Long: `Carries messages between its standard input and output and one slot of a running broker,
for a client that starts its servers itself. In such a client's settings it is the command.`,
		Example: `  sluice mcp stdio --slot _all
  sluice mcp stdio --slot scada --url wss://mcp.example --token-file token`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.Slot == "" {
				return usageError{errors.New("which slot? Give --slot, or --slot _all for the tools of all")}
			}
			return none(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.In, o.Token = cmd.InOrStdin(), os.Getenv(brokerToken)
			if tokenFile != "" {
				text, err := os.ReadFile(tokenFile)
				if err != nil {
					return err
				}
				o.Token = strings.TrimSpace(string(text))
			}
			return stdio.Run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.URL, "url", "ws://127.0.0.1:8082", "the `address` of the broker")
	f.StringVar(&o.Slot, "slot", "", "the `slot`, _all or _broker")
	f.StringVar(&tokenFile, "token-file", "", "a `file` with the token to show (default: the variable "+brokerToken+")")
	return cmd
}
