package redis

import "github.com/sluicegate/sluice/ledger"

// CellKey is the key of a cell under the usual prefix.
func CellKey(k ledger.Key) string { return (&Store{prefix: "sluice:"}).cellKey(k) }

// Rights are what the message about a user without rights names, for a Cluster too.
const Rights = rights + " " + clusterRights
