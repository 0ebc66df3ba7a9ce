package hazelcast

// Stats is what a Store says of itself.
type Stats struct {
	// Failure is why the cluster is not asked at the moment; nil while it is.
	Failure error
}

// Stats returns figures at once, without asking the cluster.
func (s *Store) Stats() Stats { return Stats{Failure: s.breaker.Failure()} }
