package identity

import "strings"

// claim returns the value at a dotted path of nested objects, or nil. A claim whose
// own name has dots, such as an address, is found first.
func claim(claims map[string]any, path string) any {
	if v, ok := claims[path]; ok {
		return v
	}
	head, rest, nested := strings.Cut(path, ".")
	if !nested {
		return nil
	}
	inner, _ := claims[head].(map[string]any)
	return claim(inner, rest)
}

func claimText(claims map[string]any, path string) string {
	s, _ := claim(claims, path).(string)
	return s
}

// maxGroups bounds how many roles of a token are looked at.
const maxGroups = 64

// claimList reads a list of texts, or one text with blanks between its words. What
// cannot stand in a log as it is, is left out.
func claimList(claims map[string]any, path string) []string {
	if path == "" {
		return nil
	}
	var all []string
	switch v := claim(claims, path).(type) {
	case string:
		all = strings.Fields(v)
	case []any:
		for _, e := range v {
			if s, ok := e.(string); ok {
				all = append(all, s)
			}
		}
	}
	var list []string
	for _, s := range all {
		if plain(s, 128) && len(list) < maxGroups {
			list = append(list, s)
		}
	}
	return list
}
