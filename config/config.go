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
//	min, max bounds of a number, or of how many elements a list has
//	format   what a text must be: a check of formats.go
//	secret   "only": given as ${NAME} or file:PATH; "may": that, or in clear
//	required "true" if the file must give it
//	keyed    of a list that the file writes as a map: the field that takes the map's key
//
// A file goes through these steps, one Go file each: parse.go makes a tree with places,
// move.go brings old spellings home, canon.go gives keys their names, tree.go merges,
// decode.go fills the structs, and compile*.go check them and make the rules.
package config

import "github.com/sluicegate/sluice"

// Config is what the files say, after defaults. It is read-only once Load has returned,
// and then safe for concurrent use. The zero Config has no rules.
type Config struct {
	Root

	policy sluice.Policy
	places places
	hash   string
}

// Policy returns the rules that the files compile to, each with its Source. It is the
// same Policy on every call and must not be changed.
func (c *Config) Policy() *sluice.Policy { return &c.policy }

// Hash returns a short digest of what the files say, for a metric or a log line. Secrets
// are not part of it.
func (c *Config) Hash() string { return c.hash }

// Tier returns the tier of that name, or the default tier if there is none.
func (c *Config) Tier(name string) (Tier, bool) {
	for _, want := range []string{name, c.DefaultTier} {
		for _, t := range c.Tiers {
			if t.Name == want {
				return t, true
			}
		}
	}
	return Tier{}, false
}

// Pos returns where a field of c was given: c.Pos(&c.Listen.Gate). A field that the files
// do not give has the place of the map that it is absent from.
func (c *Config) Pos(field any) Pos { return c.places[field].pos }
