package estimate

import "unicode/utf8"

const (
	samples   = 256 // pieces of a text that is too long to be read whole
	sampleLen = 512 // bytes
	exactUpTo = samples * sampleLen
)

// sampled returns about what count would return for texts that have total bytes together.
// draw returns a random number below n.
func sampled(texts [][]byte, total int, draw func(n int) int) int64 {
	sum, read := int64(0), 0
	sample(texts, total, draw, func(piece []byte) {
		sum += count(piece)
		read += len(piece)
	})
	return int64(float64(sum) * float64(total) / float64(max(read, 1)))
}

// sample visits pieces of texts that have total bytes together. It cuts the whole into
// stretches of equal length and begins a piece at a random place of each; a piece that
// passes the end of a text goes on in the next, and after the last in the first. So every
// byte is read with the same probability, wherever it stands: nobody can put what counts
// little where it is looked at.
func sample(texts [][]byte, total int, draw func(n int) int, visit func(piece []byte)) {
	text, begin := 0, 0 // begin is where texts[text] begins in the whole
	for i := range samples {
		from, to := total/samples*i+total%samples*i/samples, total/samples*(i+1)+total%samples*(i+1)/samples
		at := from + draw(to-from)
		for begin+len(texts[text]) <= at {
			begin += len(texts[text])
			text++
		}
		readOn(texts, text, at-begin, visit)
	}
}

// readOn visits sampleLen bytes that begin at a place of a text.
func readOn(texts [][]byte, text, at int, visit func([]byte)) {
	for left := sampleLen; left > 0; {
		here := texts[text]
		end := min(at+left, len(here))
		left -= end - at
		if from, to := align(here, at), align(here, end); from < to {
			visit(here[from:to])
		}
		text, at = (text+1)%len(texts), 0
	}
}

// align returns the beginning of the first character at or after at, so that no piece begins
// or ends within one. Of an escape before which backslashes stand it may see one that is
// none, and leaves out a few bytes.
func align(text []byte, at int) int {
	if at == len(text) {
		return at
	}
	for back := 1; back < len(`\u0000`) && back <= at; back++ {
		if text[at-back] != '\\' {
			continue
		}
		size := 2
		if text[at-back+1] == 'u' {
			size = len(`\u0000`)
		}
		if size > back {
			return min(at-back+size, len(text))
		}
		break
	}
	for range utf8.UTFMax - 1 { // more are no character
		if at < len(text) && !utf8.RuneStart(text[at]) {
			at++
		}
	}
	return at
}
