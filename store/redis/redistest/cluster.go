package redistest

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Group is a Redis Cluster: three masters, each with a third of the slots and a replica
// of its own, which takes over within about a second when its master dies.
type Group struct {
	Nodes []*Server // the first three began as masters; the i-th and the i+3rd have the same slots
	t     testing.TB
}

// slots is how many slots a Cluster has.
const slots = 16384

// Cluster starts a Cluster, of servers with these further arguments, and returns when it
// serves all slots and every replica is in step. It takes some seconds: let tests share
// one.
func Cluster(t testing.TB, args ...string) *Group {
	t.Helper()
	g := &Group{t: t}
	for range 6 {
		g.Nodes = append(g.Nodes, Start(t, append([]string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "500", "--cluster-replica-validity-factor", "0",
			"--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0",
		}, args...)...))
	}
	masters := g.Nodes[:3]
	for i, m := range masters {
		words := []string{"CLUSTER", "ADDSLOTS"}
		for slot := slots * i / 3; slot < slots*(i+1)/3; slot++ {
			words = append(words, strconv.Itoa(slot))
		}
		g.ok(m, words...)
		g.ok(m, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
	}
	var met time.Time
	g.eventually("all nodes know each other", func(n *Server) bool {
		if time.Since(met) > 3*time.Second { // a busy machine is late for a handshake
			for _, other := range g.Nodes[1:] {
				g.ok(g.Nodes[0], "CLUSTER", "MEET", "127.0.0.1", other.Port)
			}
			met = time.Now()
		}
		return strings.Count(n.Do("CLUSTER", "NODES"), "connected") == len(g.Nodes) && !strings.Contains(n.Do("CLUSTER", "NODES"), "handshake")
	})
	for i, n := range g.Nodes[3:] {
		g.ok(n, "CLUSTER", "REPLICATE", masters[i].Do("CLUSTER", "MYID"))
	}
	g.Settle()
	return g
}

// URI leads to the Cluster.
func (g *Group) URI() string { return "redis://" + g.Nodes[0].Addr }

// Settle starts the nodes that have been killed, and waits until all slots are served and
// every replica is in step with its master.
func (g *Group) Settle() {
	g.t.Helper()
	for _, n := range g.Nodes {
		n.revive()
	}
	g.eventually("the Cluster is well", func(n *Server) bool {
		nodes := n.Do("CLUSTER", "NODES")
		role := n.Info("replication")
		return strings.Contains(n.Do("CLUSTER", "INFO"), "cluster_state:ok") &&
			strings.Count(nodes, " connected") == len(g.Nodes) && !strings.Contains(nodes, "fail") &&
			strings.Count(nodes, "master -") == 3 &&
			(strings.Contains(role, "connected_slaves:1") || strings.Contains(role, "master_link_status:up"))
	})
}

// Masters are the nodes that serve slots at the moment, in the order of Nodes.
func (g *Group) Masters() []*Server {
	g.t.Helper()
	var list []*Server
	for _, n := range g.Nodes {
		if n.runs() && strings.Contains(n.Info("replication"), "role:master") {
			list = append(list, n)
		}
	}
	return list
}

// Owner is the master that serves a key.
func (g *Group) Owner(key string) *Server {
	g.t.Helper()
	slot := g.Slot(key)
	for _, m := range g.Masters() {
		for _, line := range strings.Split(m.Do("CLUSTER", "NODES"), "\n") {
			if strings.Contains(line, "myself") && serves(line, slot) {
				return m
			}
		}
	}
	g.t.Fatalf("nobody serves slot %d", slot)
	return nil
}

// Slot is the slot of a key.
func (g *Group) Slot(key string) int {
	g.t.Helper()
	slot, err := strconv.Atoi(strings.TrimPrefix(g.Nodes[1].Do("CLUSTER", "KEYSLOT", key), ":"))
	if err != nil {
		g.t.Fatal(err)
	}
	return slot
}

// serves reports whether a line of CLUSTER NODES names a slot.
func serves(line string, slot int) bool {
	words := strings.Fields(line)
	for _, word := range words[min(8, len(words)):] {
		first, last, isRange := strings.Cut(word, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 == nil && err2 == nil && from <= slot && slot <= to {
			return true
		}
	}
	return false
}

// Flush empties the Cluster.
func (g *Group) Flush() {
	g.t.Helper()
	for _, m := range g.Masters() {
		m.Flush()
	}
}

// Move begins to move a slot to another master, as redis-cli does: both are told, and keys
// that are not there any more are asked for at the new one. finish ends it.
func (g *Group) Move(slot int, from, to *Server) (keys func(n int) int, finish func()) {
	g.t.Helper()
	fromID, toID, at := from.Do("CLUSTER", "MYID"), to.Do("CLUSTER", "MYID"), strconv.Itoa(slot)
	g.ok(to, "CLUSTER", "SETSLOT", at, "IMPORTING", fromID)
	g.ok(from, "CLUSTER", "SETSLOT", at, "MIGRATING", toID)
	keys = func(n int) int {
		g.t.Helper()
		moved := 0
		for _, key := range from.List("CLUSTER", "GETKEYSINSLOT", at, strconv.Itoa(n)) {
			if got := from.Do("MIGRATE", "127.0.0.1", to.Port, key, "0", "5000"); got != "+OK" && got != "+NOKEY" {
				g.t.Fatalf("migrate: %s", got)
			}
			moved++
		}
		return moved
	}
	return keys, func() {
		g.t.Helper()
		for keys(100) > 0 {
		}
		g.ok(to, "CLUSTER", "SETSLOT", at, "NODE", toID)
		for _, n := range append([]*Server{from}, g.Masters()...) {
			g.ok(n, "CLUSTER", "SETSLOT", at, "NODE", toID)
		}
	}
}

// ok sends a command that must succeed.
func (g *Group) ok(n *Server, words ...string) {
	g.t.Helper()
	if got := n.Do(words...); got != "+OK" {
		g.t.Fatalf("%.60q: %s", strings.Join(words, " "), got)
	}
}

// eventually waits until all nodes are as they should be.
func (g *Group) eventually(what string, ok func(*Server) bool) {
	g.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); slices.ContainsFunc(g.Nodes, func(n *Server) bool { return !ok(n) }); {
		if time.Now().After(deadline) {
			g.t.Fatalf("not within half a minute: %s\n%s", what, g.Nodes[0].Do("CLUSTER", "NODES"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}
