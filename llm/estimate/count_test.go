package estimate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCount(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       int64
	}{
		{"nothing", ``, 0},
		{"a word with its space", ` word`, 1000},
		{"a word that begins with a capital", `Word`, 1000},
		{"two words in one", `camelCase`, 2000},
		{"a long word", `straightforward`, 1000 + 7*perLetter},
		{"letters beyond any word", strings.Repeat("x", 25), 25 * perLetter},
		{"three digits", `123`, perDigits},
		{"four digits", `1234`, 2 * perDigits},
		{"a space before digits", `a 1`, 1000 + perBlank + perDigits},
		{"spaces", `    `, 1100 + 4*8},
		{"a line's end after a word", `a\n`, 1000 + 850},
		{"a line's end after a sign", `.\n`, 880 + perLineAfterPunct + 50},
		{"a tab as an escape", `\t`, 0},
		{"signs", `==`, 690 + 2*190},
		{"a word after a sign", `.get`, 880 + perWordAfterPunct},
		{"letters and digits", `a1b2c3d4e5f6a7b8`, 16 * perDatum},
		{"letters and digits, few", `v2`, 1000 + perDigits},
		{"accents do not cut a word", `für`, 1000 + perAccent},
		{"Cyrillic", `слово`, 1070 + 5*90},
		{"Han", `中文`, 2 * 730},
		{"a quote", `\"`, 880},
		{"a slash", `\/`, 880},
		{"a backslash before an n", `\\n`, 880 + perWordAfterPunct},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := count([]byte(c.text)); got != c.want {
				t.Errorf("count(%s) = %d thousandths, want %d", c.text, got, c.want)
			}
		})
	}
}

// TestEscapesThatMeanNothing counts what no JSON has, and what a client may send all the same.
func TestEscapesThatMeanNothing(t *testing.T) {
	for _, text := range []string{
		`\`, `\u`, `\u1`, `\u12`, `\u123`, `\uzzzz`, `\x`, `\\\`, `\ud83d`, `\ude00`, `\ud83d\u`, `\ud83d\u0041`, `\ud83d\ud83d`, `\ude00\ud83d`,
		`\ud83dx`, "\\\xff", "\xff\xfe", "\xe4\xb8", "\xf0\x9f", "\x00", `\u005c`, `\u0000`, `\u005cu0041`, "\u2028", `\ufeff`,
	} {
		for cut := range len(text) + 1 {
			if n := count([]byte(text[:cut])); n < 0 || cut > 0 && n > int64(cut)*2500 {
				t.Errorf("count(%q) = %d thousandths", text[:cut], n)
			}
		}
	}
	if got, want := count([]byte(`\ud83d\ude00`)), count([]byte("😀")); got != want {
		t.Errorf("a pair of surrogates is %d thousandths, the character itself %d", got, want)
	}
	if got, want := count([]byte(`\ud83d\ud83d\ude00`)), count([]byte("\ufffd😀")); got != want {
		t.Errorf("half a pair before a whole one is %d thousandths, want %d", got, want)
	}
	if got, want := count([]byte(`\u005cn`)), count([]byte(`\\n`)); got != want {
		t.Errorf("an escaped backslash before an n is %d thousandths, want %d", got, want)
	}
}

// escapeAll writes every character of a text as \u escapes, as some clients do with all that
// is not ASCII.
func escapeAll(text string) []byte {
	var b bytes.Buffer
	for _, r := range text {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// inside returns the inside of a JSON string as Go writes it.
func inside(t testing.TB, text string) []byte {
	t.Helper()
	raw, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw[1 : len(raw)-1]
}

// FuzzCount holds that a text counts the same however its characters are written, that no
// byte counts more than two and a half tokens, and that two texts count about what they do together.
func FuzzCount(f *testing.F) {
	for _, s := range []string{"", "Hello, world!", "für 12 345 €\n\n\tif x {", "中文かな한글ไทย русский 😀👩‍💻", `\u0041\n\\`, "a1B2c3d4e5F6g7h8i9", "\u0301\u200d\ufe0f", "\xff"} {
		f.Add(s, uint(3))
	}
	f.Fuzz(func(t *testing.T, text string, at uint) {
		raw := []byte(text)
		whole := count(raw)
		if whole < 0 || whole > int64(len(raw))*2500 {
			t.Fatalf("%q counts %d thousandths", text, whole)
		}
		k := int(at % uint(len(raw)+1))
		if a, b := count(raw[:k]), count(raw[k:]); whole > a+b+joined(raw) || a > whole+joined(raw) || b > whole+joined(raw) {
			t.Fatalf("%q counts %d thousandths, its parts %q and %q %d and %d", text, whole, text[:k], text[k:], a, b)
		}
		if !utf8.ValidString(text) {
			return
		}
		if a, b := count(inside(t, text)), count(escapeAll(text)); a != b {
			t.Fatalf("%q counts %d thousandths as JSON, and %d in escapes", text, a, b)
		}
	})
}

// joined is how much a cut may change a count: by the class of what stands around it, and by
// what is data only as a whole. That is the weight of a stretch of letters and digits.
func joined(text []byte) int64 {
	longest, n := 0, 0
	for _, b := range text {
		if k := classes[b]; k == lower || k == upper || k == digit || k >= simple {
			n++
		} else {
			n = 0
		}
		longest = max(longest, n)
	}
	return 3000 + int64(longest)*perDigits
}

// places is a text whose tokens stand at the given distance from the borders of the stretches
// that a sample is cut into, and else is blank.
func places(size, distance, width int) []byte {
	text := bytes.Repeat([]byte(" "), size)
	stretch := size / samples
	for at := distance; at+width <= size; at += stretch {
		for i := range width {
			text[at+i] = "1\n"[i%2]
		}
	}
	return text
}

// TestSampleIsUnbiased compares the mean of many samples with the exact count, for texts that
// put their tokens where a sample with a fixed place in each stretch would not look.
func TestSampleIsUnbiased(t *testing.T) {
	const size, rounds, seed = 4 * exactUpTo, 30, 17
	stretch := size / samples
	prose := bytes.Repeat([]byte(`The quick brown fox jumped over 13 dogs.\nEr fuhr über die Brücke, \u0434\u043e\u043c. `), size/90)
	half := append(bytes.Repeat([]byte("word "), size/10), bytes.Repeat([]byte(`9,`), size/4)...)
	escapes := bytes.Repeat([]byte(`\u0e01\u0e02 `), size/13)
	for _, c := range []struct {
		name  string
		texts [][]byte
	}{
		{"prose", [][]byte{prose}},
		{"escapes", [][]byte{escapes}},
		{"tokens at the beginning of each stretch", [][]byte{places(size, 0, stretch/8)}},
		{"tokens in the middle of each stretch", [][]byte{places(size, stretch/2, stretch/8)}},
		{"tokens at the end of each stretch", [][]byte{places(size, stretch-stretch/8, stretch/8)}},
		{"half dense", [][]byte{half}},
		{"dense at the very end", [][]byte{bytes.Repeat([]byte("       x"), size/9), bytes.Repeat([]byte(`9,`), size/20)}},
		{"many texts", slicesOf(prose, 1000)},
		{"empty texts between", [][]byte{nil, prose, nil, {}, half, nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			exact, total := 0.0, 0
			for _, text := range c.texts {
				exact += float64(count(text))
				total += len(text)
			}
			r, sum := rand.New(rand.NewPCG(seed, 0)), 0.0
			for range rounds {
				sum += float64(sampled(c.texts, total, r.IntN))
			}
			if got := sum / rounds; got < exact*0.96 || got > exact*1.04 {
				t.Errorf("seed %d: the mean of %d samples is %.0f thousandths, the text has %.0f (%+.1f %%)", seed, rounds, got, exact, 100*(got/exact-1))
			}
		})
	}
}

// TestPiecesBeginWithCharacters walks through a text character by character, and holds that no
// piece begins or ends elsewhere.
func TestPiecesBeginWithCharacters(t *testing.T) {
	text := []byte(`für \u0e01\u00fc\u0e01 中文\n\n\té\"é\"\tü😀\n😀\u0041😀`)
	for from := 0; from < len(text); {
		size := 1
		if classes[text[from]] >= simple {
			_, size = decode(text[from:])
		}
		for at := from + 1; at <= from+size; at++ {
			if got := align(text, at); got != from+size {
				t.Errorf("a piece that is to begin at byte %d begins at %d, within %q", at, got, text[from:from+size])
			}
		}
		from += size
	}
}

func slicesOf(text []byte, size int) (list [][]byte) {
	for len(text) > 0 {
		n := min(size, len(text))
		list, text = append(list, text[:n]), text[n:]
	}
	return list
}

// TestSampleReadsABoundedAmount is the argument for L-132: what is read has a bound, and each
// byte that is read is looked at a bounded number of times. BenchmarkAdd says how long it takes.
func TestSampleReadsABoundedAmount(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = `\u0a"{} `[r.IntN(8)]
	}
	noise = bytes.Repeat(noise, 50)
	for _, c := range []struct {
		name  string
		texts [][]byte
	}{
		{"L-132 50 MB in one text", [][]byte{noise}},
		{"L-132 50 MB in 50 000 texts", slicesOf(noise, 1000)},
		{"L-132 one byte more than is read whole", [][]byte{bytes.Repeat([]byte("a"), exactUpTo+1)}},
		{"L-132 backslashes alone", [][]byte{bytes.Repeat([]byte(`\`), 1<<20)}},
		{"L-132 continuation bytes alone", [][]byte{bytes.Repeat([]byte("\x80"), 1<<20)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			read, total := 0, 0
			for _, text := range c.texts {
				total += len(text)
			}
			sample(c.texts, total, r.IntN, func(piece []byte) { read += len(piece) })
			if read > exactUpTo+samples*len(`\u0000`) || read == 0 {
				t.Errorf("%d bytes were read, want at most %d and a few", read, exactUpTo)
			}
		})
	}
	t.Run("L-132 no run is read twice", func(t *testing.T) {
		once := count(bytes.Repeat([]byte("a"), 50_000))
		if twice := count(bytes.Repeat([]byte("a"), 100_000)); twice != 2*once {
			t.Errorf("100 KB of one letter is %d thousandths, half of it %d", twice, once)
		}
	})
}

func TestCounterAddsUp(t *testing.T) {
	t.Run("L-126 digits and line ends", func(t *testing.T) {
		var c Counter
		c.Add(bytes.Repeat([]byte(`1\n`), 30_000))
		if n := c.Tokens(); n < 60_000*7/10 || n > 60_000*13/10 {
			t.Errorf("60 000 tokens are counted as %d", n)
		}
	})
	t.Run("thousandths are kept between texts", func(t *testing.T) {
		var c Counter
		for range 100 {
			c.Add([]byte("."))
		}
		if n := c.Tokens(); n != 88 {
			t.Errorf("100 signs of 0.88 tokens are %d, want 88", n)
		}
	})
	t.Run("what is too much is the most", func(t *testing.T) {
		var c Counter
		for range 100_000 {
			c.AddTokens(1 << 62)
		}
		if n := c.Tokens(); n != most/1000+1 {
			t.Errorf("Tokens is %d, want %d", n, int64(most)/1000+1)
		}
	})
	t.Run("less than nothing is nothing", func(t *testing.T) {
		var c Counter
		c.AddTokens(-5)
		if n := c.Tokens(); n != 0 {
			t.Errorf("Tokens is %d, want 0", n)
		}
	})
}
