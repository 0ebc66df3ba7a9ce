package tally

import "time"

// Seconds is how far back the series reach.
const Seconds = 300

// A Point is one second of one rule.
type Point struct {
	Hits    uint32 `json:"hits"`
	Refused uint32 `json:"refused"`
}

// series is the last Seconds of all decisions: a ring with next as its oldest place.
type series struct {
	ring [Seconds][Outcomes]uint32
	last Counts
	next int
	end  time.Time // of the newest second; zero before the first Sample
}

type ruleSeries struct {
	ring    [Seconds]Point
	hits    uint64
	refused uint64
}

// Sample ends a second: it notes what was counted since the last Sample. Call it once a
// second; a missed second's decisions then appear in the next one.
func (t *Tally) Sample(now time.Time) {
	rules := t.Rules()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.series
	total := t.Overall()
	for o := range total {
		s.ring[s.next][o] = uint32(total[o] - s.last[o])
	}
	s.last = total
	for _, r := range rules {
		r.sample(s.next)
	}
	s.next = (s.next + 1) % Seconds
	t.second.Add(1)
	s.end = now
}

func (r *Rule) sample(place int) {
	c := r.Counts()
	hits, refused := c.Total(), c[Refused]+c[ShadowRefused]
	r.series.ring[place] = Point{Hits: uint32(hits - r.series.hits), Refused: uint32(refused - r.series.refused)}
	r.series.hits, r.series.refused = hits, refused
}

// Series returns the last n seconds, oldest first, and when the newest of them ended.
// n is at most [Seconds].
func (t *Tally) Series(n int) (seconds [][Outcomes]uint32, end time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seconds = make([][Outcomes]uint32, n)
	for i := range seconds {
		seconds[i] = t.series.ring[place(t.series.next, n, i)]
	}
	return seconds, t.series.end
}

// RuleSeries returns the last n seconds of r, oldest first. Refused includes what a
// shadow rule would have refused.
func (t *Tally) RuleSeries(r *Rule, n int) []Point {
	t.mu.Lock()
	defer t.mu.Unlock()
	points := make([]Point, n)
	for i := range points {
		points[i] = r.series.ring[place(t.series.next, n, i)]
	}
	return points
}

// place returns where the i-th of the last n seconds stands in a ring.
func place(next, n, i int) int { return (next - n + i + Seconds) % Seconds }
