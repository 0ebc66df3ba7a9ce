package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/store/file"
)

func newLedger(s streams) *cobra.Command {
	ledger := &cobra.Command{
		Use:   "ledger",
		Short: "Look into the books of the file store, and mend them",
		Long: `The file store keeps its books in one file, the ledger: store.file.path of the
configuration. inspect and verify only read, also while a sluice uses the ledger;
compact and recover need it for themselves.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("there is no command %q; use inspect, verify, compact or recover", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	ledger.AddCommand(newLedgerInspect(s), newLedgerVerify(s), newLedgerCompact(s), newLedgerRecover(s))
	return ledger
}

func newLedgerInspect(s streams) *cobra.Command {
	return ledgerCommand(s, &cobra.Command{
		Use:   "inspect FILE",
		Short: "Say what is in a ledger",
		Long: `Prints the limits whose counters are kept, how many keys each has, and the admissions
that are open. --json lists every key and every admission. Keys and IDs are digests:
nobody can tell callers from them. A note is what the program wrote that made the
admission: how long it is, and what it says if that is text.`,
	}, func(path string) (ledgerAnswer, error) {
		return inspect(path)
	})
}

func newLedgerVerify(s streams) *cobra.Command {
	return ledgerCommand(s, &cobra.Command{
		Use:   "verify FILE",
		Short: "Check every byte of a ledger",
		Long:  `Reads the whole ledger. The exit code is 1 if a byte that counts is not as it was written.`,
	}, func(path string) (ledgerAnswer, error) {
		sum, err := file.Verify(path)
		return verification(sum), err
	})
}

func newLedgerCompact(s streams) *cobra.Command {
	var secretFile string
	cmd := ledgerCommand(s, &cobra.Command{
		Use:   "compact FILE",
		Short: "Write a ledger anew, without what is out of date",
		Long: `Makes the file as small as what it says. A sluice that runs does so by itself, and at
every start; this is for a ledger that is to be copied or kept.`,
	}, func(path string) (ledgerAnswer, error) {
		o := file.Options{Logger: ledgerLog(s.err)}
		if secretFile != "" {
			text, err := os.ReadFile(secretFile)
			if err != nil {
				return nil, err
			}
			o.KeySecret = bytes.TrimSpace(text)
		}
		before, after, err := file.Compact(path, o)
		return &compaction{before, after}, err
	})
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "a `file` with the key secret, if the configuration gives one")
	return cmd
}

func newLedgerRecover(s streams) *cobra.Command {
	return ledgerCommand(s, &cobra.Command{
		Use:   "recover FILE",
		Short: "Save what can be saved of a damaged ledger",
		Long: `Keeps everything before the first damage, of the ledger or of the backup beside it,
whichever knows more. What was written later is lost: its debits are forgotten, which
errs in favour of callers, and slots that were taken since are free. The damaged file is
kept under another name.`,
	}, func(path string) (ledgerAnswer, error) {
		kept, saved, err := file.Recover(path, file.Options{Logger: ledgerLog(s.err)})
		return &recovery{kept, saved}, err
	})
}

// A ledgerAnswer is what a ledger command has to say.
type ledgerAnswer interface {
	write(io.Writer) error // for people
	json() any             // for machines
}

// ledgerCommand completes a command that does something with one ledger.
func ledgerCommand(s streams, cmd *cobra.Command, do func(path string) (ledgerAnswer, error)) *cobra.Command {
	var asJSON bool
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageError{errors.New("it takes one ledger")}
		}
		return nil
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		answer, err := do(args[0])
		switch {
		case err != nil:
			return err
		case asJSON:
			return writeJSON(s.out, answer.json())
		}
		return answer.write(s.out)
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// ledgerLog tells people what happens to a store beside what they have asked for.
func ledgerLog(w io.Writer) *slog.Logger { return newLogger(w, "text", slog.LevelWarn) }
