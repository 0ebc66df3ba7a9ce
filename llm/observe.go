package llm

import (
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/upstream"
)

// An Observer is told what happens, in the goroutine in which it happens. Its functions must
// not block; those that are nil are not called. Names of models are those of the
// configuration or of requests that a provider has answered, and never text of an
// unverified client.
type Observer struct {
	// Attempted is called when an attempt has ended.
	Attempted func(Attempted)
	// Answered is called when a request has ended.
	Answered func(Answered)
}

// An Attempted says how one attempt ended.
type Attempted struct {
	Provider, Model, Credential string
	// Class is what its answer meant; Failed is set if there was none.
	Class  upstream.Class
	Failed bool
	// Waited is how long it stood in line; Took how long it was under way.
	Waited, Took time.Duration
	// Reserved is what was taken for it in tokens, Settled what it came to.
	Reserved, Settled int64
	// Usage is what the provider said, if Told.
	Usage dialect.Usage
	Told  bool
	// Estimated is the input that was expected before the margin; it is compared with
	// Usage.
	Estimated int64
	// Levels are where the provider's limits stood when it was admitted.
	Levels []sluice.Level
}

// An Answered says how a request ended.
type Answered struct {
	Dialect   dialect.Name
	Operation dialect.Operation
	Status    int
	// Refused is why it was not admitted, ReasonNone if it was.
	Refused sluice.Reason
	// Attempts counts those that were made, Failovers those that went elsewhere than the
	// one before.
	Attempts, Failovers int
	// Client is how often the client says that it has tried before, at most 100.
	Client int
	Took   time.Duration
}
