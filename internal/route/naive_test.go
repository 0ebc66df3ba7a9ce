package route

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// The reference: the words of the documentation, as directly as they can be coded.

// naiveMatch translates the pattern to a regular expression.
func naiveMatch(pattern, path string) bool {
	if path == "*" {
		path = "/*"
	}
	if pattern == "/" {
		return path == "/"
	}
	var re strings.Builder
	for _, s := range strings.Split(pattern, "/")[1:] {
		switch {
		case s == "**":
			re.WriteString(`(/[^/]+)*`)
			continue
		case s == "*" || s[0] == '{':
			re.WriteString(`/[^/]+`)
			continue
		}
		s = regexp.QuoteMeta(s)
		s = strings.ReplaceAll(s, `\*`, `[^/]*`)
		s = strings.ReplaceAll(s, `\?`, `[^/]`)
		re.WriteString("/" + s)
	}
	return regexp.MustCompile("^(?s:" + re.String() + ")$").MatchString(strings.TrimSuffix(path, "/"))
}

// naiveRank returns the figures by which a route is preferred, smaller first, or nil if
// it does not match.
func naiveRank(r Route, host, method, path string) []int {
	text := r.Pattern.String()
	if !naiveMatch(text, path) {
		return nil
	}
	methodRank := slices.Index([]bool{
		slices.Contains(r.Methods, method),
		method == "HEAD" && slices.Contains(r.Methods, "GET"),
		r.Methods == nil,
	}, true)
	hostRank := 1000
	for _, h := range r.Hosts {
		switch suffix, below := strings.CutPrefix(h, "*"); {
		case h == host:
			hostRank = -1
		case below && strings.HasSuffix(host, suffix):
			hostRank = min(hostRank, 500-len(suffix))
		}
	}
	if methodRank < 0 || r.Hosts != nil && hostRank == 1000 {
		return nil
	}
	kind, prefix, plain, segments := 0, len(text), 0, 0
	if i := strings.IndexAny(text, "{*?"); i >= 0 {
		kind, prefix = 1, i
	}
	for _, s := range strings.Split(text, "/")[1:] {
		if s == "" {
			continue
		}
		segments++
		plain++
		if s == "**" {
			kind = 3
			continue
		}
		if strings.ContainsAny(s, "*?") {
			kind = max(kind, 2)
		}
		if s[0] != '{' {
			plain += len(s) - strings.Count(s, "?") - strings.Count(s, "*")
		}
	}
	if i := strings.Index(text, "/**"); i >= 0 && prefix == i+1 {
		prefix = i // "/a/**" also matches "/a"
	}
	return []int{kind, -prefix, methodRank, hostRank, -plain, -segments}
}

// naiveLookup returns the preferred routes: none, one, or several that tie.
func naiveLookup(routes []Route, host, method, path string) (best []int) {
	var rank []int
	for i, r := range routes {
		next := naiveRank(r, host, method, path)
		if next == nil {
			continue
		}
		switch c := slices.Compare(next, rank); {
		case rank == nil || c < 0:
			best, rank = []int{i}, next
		case c == 0:
			best = append(best, i)
		}
	}
	slices.SortFunc(best, cmp.Compare)
	return best
}
