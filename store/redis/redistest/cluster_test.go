package redistest

import (
	"testing"
	"time"
)

func TestCluster(t *testing.T) {
	began := time.Now()
	g := Cluster(t)
	t.Logf("it took %v", time.Since(began))
	owner := g.Owner("{a}")
	owner.Kill()
	began = time.Now()
	for len(g.Masters()) != 3 {
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("failed over in %v", time.Since(began))
	g.Settle()
	if now := g.Owner("{a}"); now == owner {
		t.Error("the master that was killed serves its slots still")
	}
}
