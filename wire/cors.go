package wire

import (
	"errors"
	"net/http"
	"slices"
	"strings"
)

// CORS lets scripts of browsers read a refusal. Without it they see a network error and
// no Retry-After. The zero CORS sends no header: it is for an application whose own CORS
// handler stands outside the gate.
type CORS struct {
	// Origins that may read, such as "https://app.example"; "*" is all.
	Origins []string
	// Expose are the headers that scripts may read. Nil is Retry-After and the fields of
	// the Writer's families.
	Expose []string
	// Credentials allows requests with cookies. It needs origins by name.
	Credentials bool
}

func (c *CORS) check() error {
	if c.Credentials && slices.Contains(c.Origins, "*") {
		return errors.New(`wire: CORS with credentials for every origin would let any site act as the user; name the origins`)
	}
	return nil
}

// exposed returns the value of Access-Control-Expose-Headers.
func (c *CORS) exposed(fields []string) []string {
	list := c.Expose
	if list == nil {
		list = append([]string{names[retryAfter]}, fields...)
	}
	return []string{strings.Join(list, ", ")}
}

// allow sets the headers for the request's origin. What an outer handler has set stays.
func (c *CORS) allow(h http.Header, r *http.Request, expose []string) {
	if len(c.Origins) == 0 {
		return
	}
	all := slices.Contains(c.Origins, "*")
	if !all || len(c.Origins) > 1 {
		vary(h)
	}
	origin := r.Header["Origin"]
	if len(origin) != 1 || h["Access-Control-Allow-Origin"] != nil {
		return
	}
	switch {
	case slices.Contains(c.Origins, origin[0]):
		h["Access-Control-Allow-Origin"] = origin
		if c.Credentials {
			h["Access-Control-Allow-Credentials"] = []string{"true"}
		}
	case all:
		h["Access-Control-Allow-Origin"] = []string{"*"}
	default:
		return
	}
	h["Access-Control-Expose-Headers"] = expose
}

// vary says once that the answer depends on the origin.
func vary(h http.Header) {
	for _, line := range h["Vary"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name == "*" || strings.EqualFold(name, "Origin") {
				return
			}
		}
	}
	h["Vary"] = append(h["Vary"], "Origin")
}
