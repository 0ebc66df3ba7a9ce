package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sluicegate/sluice/config"
)

// A source is where a configuration comes from: files, laid over each other in order,
// and single keys laid over all of them. The zero source is the embedded default.
type source struct{ files, set []string }

// flags adds the flags that say so.
func (s *source) flags(f *pflag.FlagSet) {
	f.StringArrayVarP(&s.files, "config", "c", nil, "a configuration `file`; further ones are laid over it")
	s.setFlag(f)
}

func (s *source) setFlag(f *pflag.FlagSet) {
	f.StringArrayVar(&s.set, "set", nil, "a `key=value` over the files, such as listen.gate=127.0.0.1:18080")
}

// load reads the configuration. What looks wrong is returned beside it; what is wrong is
// the error, a line for each problem.
func (s *source) load() (*config.Config, config.Problems, error) {
	c, problems := config.Load(s.files, config.Options{Set: s.set})
	if err := problems.Err(); err != nil {
		return nil, nil, configError{err}
	}
	return c, problems.Warnings(), nil
}

// loadAloud is load for commands that people watch: it writes what looks wrong to warn.
func (s *source) loadAloud(warn io.Writer) (*config.Config, error) {
	c, warnings, err := s.load()
	for _, w := range warnings {
		fmt.Fprintln(warn, w)
	}
	return c, err
}

// String names the source for people.
func (s *source) String() string {
	if len(s.files) == 0 {
		return "the built-in configuration"
	}
	return strings.Join(s.files, " + ")
}

// A configError is all problems of a configuration, a line each.
type configError struct{ error }
