package sluice

// A Lessor is a Store that takes units ahead of need, as store/lease does. Under any other
// a rule's Lease is not heeded.
type Lessor interface {
	// Leased returns how many keys have units ahead.
	Leased() int
}

// leasable reports whether units can be taken ahead of all of r's limits. A call has to pass
// them all, so of some alone it would be of no use.
func (r *Rule) leasable() bool {
	for i := range r.Limits {
		if _, ok := r.Limits[i].Limit.Lease(r.Lease); !ok {
			return false
		}
	}
	return !r.Shadow
}

// takeAhead lets the store take units of l, a limit of a leasable rule, ahead, and counts it
// accordingly.
func (l *ruleLimit) takeAhead(percent int) {
	lease, _ := l.Lease(percent)
	l.step.Limit, l.step.Part, l.step.Lease = lease.Limit, uint8(lease.Part), lease.For
	l.lease = lease.String()
}
