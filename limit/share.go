package limit

// Share returns the part of l that one of n processes may use by itself, so that all of
// them together stay within l, but for what is indivisible: a Bucket keeps a burst of
// one, Slots keep one. A limit of zero stays zero; a Cooldown is nobody's part.
func (l Limit) Share(n int64) Limit {
	if n <= 1 || l.Max <= 0 {
		return l
	}
	switch l.Kind {
	case KindBucket:
		return Bucket(l.Max, satMicros(l.Per, n), min(l.Burst, max(1, l.Burst/n)))
	case KindPace:
		return Pace(satMicros(l.Per, n))
	case KindWindow:
		if l.Max >= n {
			return Window(l.Max/n, l.Per)
		}
		return Window(1, satMicros(l.Per, (n+l.Max-1)/l.Max))
	case KindSlots:
		return Slots(max(1, l.Max/n))
	}
	return l
}

// satMicros is m*n, at most the longest span that can be counted with.
func satMicros(m Micros, n int64) Micros {
	if int64(m) > MaxCredits/n {
		return MaxCredits
	}
	return m * Micros(n)
}
