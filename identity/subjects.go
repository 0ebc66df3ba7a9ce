package identity

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
)

// Bounds of what a token may say of its bearer's subjects. Nothing is left out: a deny
// might be about it.
const (
	maxSubjects    = 512
	maxSubjectText = 256
)

// mapsSubjects reports whether the issuer's tokens give further subjects.
func (i *issuer) mapsSubjects() bool {
	return len(i.GroupClaims) > 0 || i.ClientClaim != "" || len(i.ServiceClaims) > 0
}

// subjects reads all subjects of a token, and returns that of them which identifies the
// caller: the first user as the token lists them, else the first service, else the first
// client. A token that has none of these identifies nobody.
func (i *issuer) subjects(r *Resolver, claims jwt.MapClaims) (first string, all []string, err error) {
	add := func(kind string, paths ...string) {
		for _, path := range paths {
			texts, ok := claimTexts(claim(claims, path))
			for _, text := range texts {
				s := i.named(r, kind, text)
				ok = ok && s != ""
				if first == "" && kind != "group" {
					first = s
				}
				all = append(all, s)
			}
			if !ok || len(all) > maxSubjects {
				err = ErrClaims
			}
		}
	}
	add("user", i.SubjectClaim)
	add("service", i.ServiceClaims...)
	if i.ClientClaim != "" {
		add("client", i.ClientClaim)
	}
	add("group", i.GroupClaims...)
	switch {
	case err != nil:
		return "", nil, err
	case first == "":
		return "", nil, ErrMalformed
	}
	slices.Sort(all)
	return first, slices.Compact(all), nil
}

// named scopes a name by its issuer: a group of one is not the group of another. It is
// empty if the name could not stand in a log; of a user it then is a digest.
func (i *issuer) named(r *Resolver, kind, name string) string {
	switch {
	case kind == "user" && len(name) <= maxSubject:
		return i.subject(r, name)
	case len(name) > maxSubjectText || strings.ContainsFunc(name, unprintable):
		return ""
	case i.Name == "":
		return kind + ":" + name
	}
	return kind + ":" + i.Name + "/" + name
}

// claimTexts reads a text or a list of texts. Any other shape is wrong; no claim at all
// and empty texts are nothing.
func claimTexts(v any) (texts []string, ok bool) {
	list, isList := v.([]any)
	if !isList && v != nil {
		list = []any{v}
	}
	for _, e := range list {
		s, isText := e.(string)
		if !isText {
			return nil, false
		}
		if s != "" {
			texts = append(texts, s)
		}
	}
	return texts, true
}

// unprintable reports whether r is a control character, or stands for bytes that are no
// character.
func unprintable(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }
