// Package broker kills a real broker again and again, and counts what native work was begun
// meanwhile.
//
//	go test ./sim/broker                       a dozen seconds, as CI does
//	ACCEPTANCE=full go test -v ./sim/broker    10 000 reservations
//	SEED=42 go test ./sim/broker               the same calls again
//
// The broker is "sluice serve", a process with its ledger on disk, which gets SIGKILL every two
// seconds and is started again. A provider dials in with the SDK and reserves a budget before
// each native operation; its backend counts the operations itself, by its own clock. Two callers
// call its tool from 64 goroutines, until a rule over the whole run has nothing left.
//
// What has to hold, with nothing added for crashes:
//
//   - In no window did more operations begin than a rule says, of all callers and of each.
//   - Over the whole run as many were reserved as the rule over it says, and no more began.
//   - Each call was answered, or its connection ended.
//   - The ledger knows each operation, and each reservation is settled or has expired.
//   - What the provider was told is settled is settled.
package broker
