package ledger

// Leaving is of how many grants it is noted when they may be forgotten.
func Leaving(g *Grants) int { return len(g.leaving) }
