package llm

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice/upstream"
)

// A Discovered is what a provider has said of its own limits for a model, at some time. A
// limit that nobody has configured can be read there.
type Discovered struct {
	Provider, Model, Credential string
	At                          time.Time
	Standings                   []upstream.Standing
}

// mostDiscovered bounds how many models and credentials of a provider are remembered: names
// of models are the clients' words.
const mostDiscovered = 256

// discovered is what one provider has said last of each model and credential.
type discovered struct {
	mu   sync.Mutex
	list map[[2]string]Discovered
}

func (d *discovered) note(said Discovered) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.list == nil {
		d.list = make(map[[2]string]Discovered)
	}
	k := [2]string{said.Model, said.Credential}
	if _, known := d.list[k]; !known && len(d.list) >= mostDiscovered {
		return
	}
	d.list[k] = said
}

// Discovered returns what providers have said of their own limits, by provider, model and
// credential.
func (g *Gateway) Discovered() []Discovered {
	var all []Discovered
	for _, p := range g.settings.Load().providers {
		p.discovered.mu.Lock()
		for _, d := range p.discovered.list {
			all = append(all, d)
		}
		p.discovered.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Discovered) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Credential, b.Credential))
	})
	return all
}
