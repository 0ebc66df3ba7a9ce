package estimate

import (
	"unicode/utf16"
	"unicode/utf8"
)

// A class is what a character counts as.
type class uint8

const (
	none class = iota
	lower
	upper
	digit
	blank // spaces and tabs
	line  // the ends of lines
	punct // what else is ASCII

	// What follows has to be decoded.
	cyrillic // and Greek
	arabic   // and Hebrew
	indic    // and Thai, Lao, Tibetan, Burmese
	kana
	han
	hangul
	emoji
	symbol // and the scripts of which nothing is known
	accent // a letter that is none of ASCII, in a Latin word
	escaped

	simple = cyrillic // the first class that is not one byte
)

// The weights are thousandths of a token. They were fitted to the texts of testdata/tuning
// and rounded; the error on those of testdata/held-out, which were put aside before, is in
// README.md. They are close to how the tokenizers cut a text before they look anything up: a
// word with the space before it, three digits, the end of a line with the signs before it.
const (
	perWord           = 1000
	perWordAfterPunct = 650
	perWordAfterDigit = 800
	shortWord         = 8   // letters; the rest of a longer word is cut
	longWord          = 24  // letters; what is longer is no word, but data
	perLetter         = 460 // of what is cut

	perDigits = 1100 // three digits
	perBlank  = 1000 // a space that stands alone

	shortData = 16 // letters and digits that are data
	perDatum  = 630

	perAccent         = 650
	perLineAfterPunct = 50
)

// weights are those of a run and of each character of it.
var weights = [...]struct{ run, char int64 }{
	blank:    {1100, 8},
	line:     {800, 50},
	punct:    {690, 190},
	cyrillic: {1070, 90},
	arabic:   {490, 255},
	indic:    {0, 395},
	kana:     {0, 815},
	han:      {0, 730},
	hangul:   {500, 610},
	emoji:    {0, 2190},
	symbol:   {0, 1080},
}

var classes = func() (t [256]class) {
	for b := range t {
		switch {
		case b >= utf8.RuneSelf:
			t[b] = symbol
		case b >= 'a' && b <= 'z':
			t[b] = lower
		case b >= 'A' && b <= 'Z':
			t[b] = upper
		case b >= '0' && b <= '9':
			t[b] = digit
		case b == ' ', b == '\t':
			t[b] = blank
		case b == '\n', b == '\r':
			t[b] = line
		case b == '\\':
			t[b] = escaped
		default:
			t[b] = punct
		}
	}
	return t
}()

// decode returns the class of the first character of text, which is none of a simple class,
// and how long it is.
func decode(text []byte) (class, int) {
	if text[0] == '\\' {
		return unescape(text)
	}
	r, size := utf8.DecodeRune(text)
	return classOf(r), size
}

// unescape reads an escape of JSON. What is none is a sign.
func unescape(text []byte) (class, int) {
	if len(text) == 1 {
		return punct, 1
	}
	switch text[1] {
	case 'n', 'r':
		return line, 2
	case 't':
		return blank, 2
	case 'u':
		r, ok := hex4(text[2:])
		if !ok {
			return punct, 2
		}
		if utf16.IsSurrogate(r) && len(text) >= 12 && text[6] == '\\' && text[7] == 'u' {
			if low, ok := hex4(text[8:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
				return classOf(utf16.DecodeRune(r, low)), 12
			}
		}
		return classOf(r), 6
	}
	return punct, 2
}

// hex4 reads four hexadecimal digits.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// classOf returns the class of a character.
func classOf(r rune) class {
	switch {
	case r == '\\':
		return punct
	case r < utf8.RuneSelf:
		return classes[r]
	case r < 0xc0:
		return symbol
	case r < 0x370, r >= 0x1e00 && r < 0x1f00: // with the marks that combine
		return accent
	case r < 0x590:
		return cyrillic
	case r < 0x900:
		return arabic
	case r < 0x1100:
		return indic
	case r < 0x1200, r >= 0xac00 && r < 0xd7b0:
		return hangul
	case r >= 0x3040 && r < 0x3100:
		return kana
	case r >= 0x3400 && r < 0xa000, r >= 0xf900 && r < 0xfb00:
		return han
	case r >= 0x1f000:
		return emoji
	}
	return symbol
}
