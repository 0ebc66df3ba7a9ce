// Package ledger stub.
package ledger

type Command struct{}
type Result struct{}
type Entry struct{}
