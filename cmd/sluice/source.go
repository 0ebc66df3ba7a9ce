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

// load reads the configuration. What looks wrong is written to warn; what is wrong is
// the error, a line for each problem.
func (s *source) load(warn io.Writer) (*config.Config, error) {
	cfg, problems := config.Load(s.files, config.Options{Set: s.set})
	for _, p := range problems.Warnings() {
		fmt.Fprintln(warn, p)
	}
	if err := problems.Err(); err != nil {
		return nil, configError{err}
	}
	return cfg, nil
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
