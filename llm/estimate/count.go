// Package estimate says how many tokens a request to a language model is, before it is made.
//
// The tokens of text are counted by classes of characters in one pass ([Counter]), without a
// tokenizer and its table of words: an exact count for one model is a wrong one for the next,
// and a tokenizer's worst input takes seconds. What is left of the error is mostly the kind of
// text that a tenant sends, so an [Estimator] learns a correction for each tenant and model
// from what the provider says was used. README.md says how far off both are.
package estimate

import "math/rand/v2"

// A Counter adds up the tokens of texts. The zero Counter has counted nothing. It is not
// safe for concurrent use.
type Counter struct {
	milli int64 // thousandths of tokens
}

// most is the largest count there is, in thousandths of tokens: what is more is that.
const most = 1 << 60

// Tokens returns how many tokens have been counted, rounded up.
func (c *Counter) Tokens() int64 { return (c.milli + 999) / 1000 }

// Add counts text that is the inside of a JSON string, with its escapes, or any JSON value.
// The work has a bound: of a text longer than 128 KiB only as much is read, in pieces at
// places that nobody can foresee, and taken for the whole.
func (c *Counter) Add(text []byte) { c.addAll([][]byte{text}) }

// AddTokens counts n tokens that are known. A negative n counts nothing.
func (c *Counter) AddTokens(n int64) { c.add(min(max(n, 0), most/1000) * 1000) }

func (c *Counter) add(milli int64) { c.milli = min(c.milli+milli, most) }

// addAll counts texts that are sent together. The bound is on all of them.
func (c *Counter) addAll(texts [][]byte) {
	total := 0
	for _, text := range texts {
		total += len(text)
	}
	if total > exactUpTo {
		c.add(sampled(texts, total, rand.IntN))
		return
	}
	for _, text := range texts {
		c.add(count(text))
	}
}

// count returns the thousandths of tokens of a text.
func count(text []byte) int64 {
	var r runs
	for i := 0; i < len(text); {
		k, end := classes[text[i]], i+1
		if k < simple {
			for end < len(text) && classes[text[end]] == k {
				end++
			}
			r.add(k, end-i)
		} else {
			var size int
			k, size = decode(text[i:])
			end = i + size
			if k == accent {
				k = lower
				r.milli += perAccent
			}
			r.add(k, 1)
		}
		i = end
	}
	r.add(none, 0)
	return r.milli
}

// runs adds up the weights of a text's runs: characters of one class in a row. A word may
// begin with capitals.
type runs struct {
	milli  int64
	now    class // the run that is being read
	n      int   // its characters
	before class // the run before it
	single bool  // which had one character

	// Letters and digits that follow each other.
	mark   int64 // milli before the first of them
	length int
	kinds  uint8 // letters, digits or both
}

const (
	letters = 1 << iota
	digits
)

// add goes on with n characters of class k.
func (r *runs) add(k class, n int) {
	if k == r.now || k == lower && r.now == upper {
		r.now = k
		r.n += n
		return
	}
	if r.now <= digit {
		r.endAlnum(k)
	} else {
		r.milli += r.weight()
	}
	r.before, r.single = r.now, r.n == 1
	r.now, r.n = k, n
}

// endAlnum ends a run of letters or digits; k is what follows. Many of them in a row that
// are letters and digits mixed are no words, but data.
func (r *runs) endAlnum(k class) {
	if r.now == none {
		return
	}
	if r.length == 0 {
		r.mark, r.kinds = r.milli, 0
	}
	r.length += r.n
	if r.now == digit {
		r.kinds |= digits
		r.milli += r.number()
	} else {
		r.kinds |= letters
		r.milli += r.word()
	}
	if k == lower || k == upper || k == digit {
		return
	}
	if r.length >= shortData && r.kinds == letters|digits {
		r.milli = r.mark + int64(r.length)*perDatum
	}
	r.length = 0
}

// word is the weight of a run of letters.
func (r *runs) word() int64 {
	n, w := int64(r.n), int64(perWord)
	switch r.before {
	case punct:
		w = perWordAfterPunct
	case digit:
		w = perWordAfterDigit
	}
	switch {
	case n <= shortWord:
		return w
	case n <= longWord:
		return w + (n-shortWord)*perLetter
	}
	return n * perLetter
}

// number is the weight of a run of digits. A space before it is a token of its own; before a
// word it is a part of the word.
func (r *runs) number() int64 {
	w := int64(r.n+2) / 3 * perDigits
	if r.before == blank && r.single {
		w += perBlank
	}
	return w
}

// weight is the weight of any other run.
func (r *runs) weight() int64 {
	w := weights[r.now]
	switch {
	case r.now == blank && r.n == 1:
		return 0 // belongs to what follows
	case r.now == line && r.before == punct:
		w.run = perLineAfterPunct
	}
	return w.run + int64(r.n)*w.char
}
