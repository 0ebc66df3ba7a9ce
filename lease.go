package sluice

import "github.com/sluicegate/sluice/limit"

// A Lessor is a Store that takes units ahead of need, as store/lease does. Under any other
// a rule's Lease is not heeded.
type Lessor interface {
	// Leased returns how many keys have units ahead.
	Leased() int
}

// Leases returns how a Lessor takes units of r's limits ahead, in their order. It is nil if
// none are: without a Lease, in shadow, or if some limit cannot be leased. A call has to pass
// them all, so units of some alone would be of no use.
func (r *Rule) Leases() []limit.Lease {
	if r.Shadow {
		return nil
	}
	leases := make([]limit.Lease, len(r.Limits))
	for i := range r.Limits {
		var ok bool
		if leases[i], ok = r.Limits[i].Limit.Lease(r.Lease); !ok {
			return nil
		}
	}
	return leases
}

// takeAhead lets the store take units of l ahead, and counts it accordingly.
func (l *ruleLimit) takeAhead(lease limit.Lease) {
	l.step.Limit, l.step.Part, l.step.Lease = lease.Limit, uint8(lease.Part), lease.For
	l.lease = lease.String()
}
