// Package config reads the configuration file: one YAML or JSON file, or several
// that are merged, checked as a whole, and turned into rules.
//
// The package is strict. An unknown key, a missing unit, two patterns that tie: each
// is a [Problem] that says where it stands, which key is meant and what to do. All
// problems of the files are reported together.
//
//	cfg, problems := config.Load([]string{"sluice.yaml"}, config.Options{})
//	if err := problems.Err(); err != nil {
//		return err
//	}
//	ctl, err := sluice.Open(cfg.Policy(), store, sluice.Options{})
//
// The structs of the section_*.go files are the only description of the file. The
// decoder reads their tags, [Schema] and [Reference] their tags and comments, so that
// none of them can drift from the others. The tags of a field are:
//
//	key      its name in the file; kebab-case and snake_case spellings mean the same
//	alias    other names for it, separated by |
//	default  its value when the file does not give one, as the file would spell it
//	enum     the values it may have, separated by |
//	min, max bounds of a number
//	format   what a text must be: a check of formats.go
//	secret   "only": given as ${NAME} or file:PATH; "may": that, or in clear
//	required "true" if the file must give it
//	keyed    of a list that the file writes as a map: the field that takes the map's key
package config

import (
	_ "embed"

	"github.com/sluicegate/sluice"
)

// Config is what the files say, after defaults. Its fields are read-only once Load has
// returned, and safe to read from several goroutines. The zero Config has no rules.
type Config struct {
	Root

	policy  *sluice.Policy
	places  places
	warning Problems
}

// Policy returns the rules that the file compiles to, each with its Source. It is the
// same Policy on every call and must not be changed.
func (c *Config) Policy() *sluice.Policy {
	if c.policy == nil {
		return &sluice.Policy{}
	}
	return c.policy
}
