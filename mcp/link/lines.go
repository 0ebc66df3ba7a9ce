package link

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// readSize is what is read at once. Most frames are far shorter.
const readSize = 32 << 10

var byteOrderMark = []byte("\xef\xbb\xbf")

// A TooLong is the error of a frame that has more bytes than the bound. None of it was
// kept, and the next frame can be read.
type TooLong struct {
	Limit  int    // in bytes
	Glance Glance // what the frame seemed to be
}

// Error says what the bound is and where it is set.
func (e *TooLong) Error() string {
	return fmt.Sprintf("mcp/link: the provider has sent a frame of more than %d bytes, which is what maxFrameBytes allows", e.Limit)
}

// Lines reads frames of which each is a line. One goroutine may use it.
type Lines struct {
	r       *bufio.Reader
	limit   int
	started bool
}

// NewLines returns a reader of lines of up to limit bytes, without their ends.
func NewLines(r io.Reader, limit int) *Lines {
	return &Lines{r: bufio.NewReaderSize(r, readSize), limit: limit}
}

// Next returns the next line that is not blank, without the white space around it and
// without a byte order mark before the first. The caller may keep it. The last line needs no
// end. A line beyond the bound is skipped to its end and is a [*TooLong] error; every other
// error is the reader's, and final.
func (l *Lines) Next() ([]byte, error) {
	for {
		line, err := l.read()
		if !l.started {
			l.started = true
			line = bytes.TrimPrefix(line, byteOrderMark)
		}
		line = bytes.TrimSpace(line)
		if _, skipped := errors.AsType[*TooLong](err); skipped {
			return nil, err
		}
		if len(line) > 0 {
			return line, nil // an error comes again
		}
		if err != nil {
			return nil, err
		}
	}
}

// read reads to the next newline, or to the end.
func (l *Lines) read() ([]byte, error) {
	var line []byte
	var long *TooLong
	for {
		chunk, err := l.r.ReadSlice('\n')
		switch {
		case long != nil:
			long.Glance.Write(chunk)
		case len(line)+len(bytes.TrimRight(chunk, "\r\n")) > l.limit:
			long = &TooLong{Limit: l.limit}
			long.Glance.Write(line)
			long.Glance.Write(chunk)
			line = nil
		default:
			line = append(line, chunk...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if long != nil {
			return nil, long
		}
		return line, err
	}
}
