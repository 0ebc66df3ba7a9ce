package wire

import (
	"strconv"
	"strings"
)

// prefersHTML reports whether a request would rather have a page than JSON (RFC 9110,
// 12.5.1): it gives HTML a higher weight, or names it first at the same weight. Without
// a preference it is a program's request, and gets JSON.
func prefersHTML(accept []string) bool {
	if len(accept) == 0 || len(accept) == 1 && accept[0] == "*/*" {
		return false
	}
	page, data := 0.0, 0.0
	for _, line := range accept {
		for element := range strings.SplitSeq(line, ",") {
			media, params, _ := strings.Cut(element, ";")
			q := weight(params)
			switch strings.ToLower(strings.TrimSpace(media)) {
			case "text/html", "application/xhtml+xml":
				if q > data {
					page = max(page, q)
				}
			case "application/problem+json", "application/json", "application/*", "*/*":
				data = max(data, q)
			}
		}
	}
	return page > 0 && page >= data
}

// weight returns the q of a media range's parameters, 1 if there is none.
func weight(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if strings.EqualFold(name, "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				return 0
			}
			return q
		}
	}
	return 1
}
