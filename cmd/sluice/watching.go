package main

import (
	"context"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/config/watch"
)

// A watching is a watch on some files. The zero watching has none.
type watching struct{ stop context.CancelFunc }

// see watches files instead of those it watched before, and asks p to reload when one of
// them changes. That it cannot is no reason not to serve: p is told.
func (w *watching) see(p *program, files []string) {
	w.end()
	if len(files) == 0 {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	watcher, err := watch.New(files...)
	if err != nil {
		p.cannotSee(err)
		return
	}
	go func() {
		err := watcher.Run(ctx, func() {
			select {
			case p.changed <- struct{}{}:
			default: // a reload is due already, and has not read the files yet
			}
		})
		if err != nil {
			p.cannotSee(err)
		}
	}()
}

// end stops watching.
func (w *watching) end() {
	if w.stop != nil {
		w.stop()
	}
	w.stop = nil
}

// cannotSee leaves word that a watch has broken.
func (p *program) cannotSee(err error) {
	select {
	case p.blind <- err:
	default: // it is known
	}
}

// filesIn are the files that a configuration names.
func filesIn(c *config.Config) []string {
	files := []string{c.TLS.CertFile, c.TLS.KeyFile, c.TLS.ClientCAFile}
	if k := c.Identity.APIKeys; k != nil {
		files = append(files, k.File)
	}
	for i := range c.Identity.JWT {
		if at := c.Identity.JWT[i].JWKS; !strings.Contains(at, "://") {
			files = append(files, at)
		}
	}
	for i := range c.Upstreams {
		files = append(files, c.Upstreams[i].CAFile)
	}
	return slices.DeleteFunc(files, func(f string) bool { return f == "" })
}
