package wire

import "unicode/utf8"

// appendJSON appends a JSON string. The bodies here are a few members in a fixed order,
// written under attack; encoding/json would cost more than the rest of the answer.
func appendJSON[S ~string | ~[]byte](b []byte, s S) []byte {
	b = append(b, '"')
	b = appendEscaped(b, s)
	return append(b, '"')
}

// appendEscaped appends what stands between the quotes. Bytes that are not UTF-8 become
// the replacement character.
func appendEscaped[S ~string | ~[]byte](b []byte, s S) []byte {
	const hex = "0123456789abcdef"
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		size, bad := 1, false
		if c >= utf8.RuneSelf {
			var r rune
			r, size = utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
			bad = r == utf8.RuneError && size == 1
			if !bad {
				i += size
				continue
			}
		}
		b = append(b, s[done:i]...)
		switch {
		case bad:
			b = append(b, "\ufffd"...)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, '\\', c)
		}
		i += size
		done = i
	}
	return append(b, s[done:]...)
}
