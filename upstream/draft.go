package upstream

import (
	"net/http"
	"time"

	"github.com/dunglas/httpsfv"
)

// drafts reads RateLimit and RateLimit-Policy as structured fields: the name of a policy
// with what remains of it and when it is full, and with its quota and window.
func drafts(h http.Header) []Standing {
	var list []Standing
	byName := map[string]int{}
	at := func(name string) *Standing {
		i, known := byName[name]
		if !known {
			i = len(list)
			byName[name] = i
			list = append(list, Standing{Dimension: Dimension(name), Limit: -1, Remaining: -1})
		}
		return &list[i]
	}
	each(h["Ratelimit"], func(name string, p *httpsfv.Params) {
		s := at(name)
		s.Remaining = integer(p, "r")
		if t := integer(p, "t"); t >= 0 {
			s.Reset, s.HasReset = seconds(t), true
		}
	})
	each(h["Ratelimit-Policy"], func(name string, p *httpsfv.Params) {
		s := at(name)
		s.Limit = integer(p, "q")
		s.Per = seconds(max(0, integer(p, "w")))
	})
	return list
}

// each calls f for the named items of a structured list, of which at most maxStandings are
// looked at. A list that cannot be read has none.
func each(values []string, f func(name string, p *httpsfv.Params)) {
	list, err := httpsfv.UnmarshalList(values)
	if err != nil {
		return
	}
	for _, member := range list[:min(len(list), maxStandings)] {
		item, ok := member.(httpsfv.Item)
		if !ok {
			continue
		}
		switch name := item.Value.(type) {
		case string:
			f(name, item.Params)
		case httpsfv.Token:
			f(string(name), item.Params)
		}
	}
}

// integer returns a parameter that is an integer not below zero, and else -1.
func integer(p *httpsfv.Params, name string) int64 {
	v, ok := p.Get(name)
	if !ok {
		return -1
	}
	n, ok := v.(int64)
	if !ok || n < 0 {
		return -1
	}
	return n
}

func seconds(n int64) time.Duration {
	return clamp(time.Duration(min(n, int64(Longest/time.Second))) * time.Second)
}
