package file

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sluicegate/sluice/limit"
)

// The parts of a log; FORMAT.md draws them.
const (
	magic      = "sluicelg"
	version    = 3
	headSize   = 512
	markAt     = 512
	markSize   = 48
	framesAt   = 4096
	frameHead  = 40
	sumSize    = 16
	frameMagic = 0x31464c53
	maxPayload = 1 << 30
)

// A sum is half a SHA-256. Each frame's covers the one before it, so that a log is
// whole or is not.
type sum [sumSize]byte

func sumOf(parts ...[]byte) (s sum) {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	copy(s[:], h.Sum(nil))
	return s
}

// A header is what a log says of itself once, when it is begun.
type header struct {
	version uint64   // that it was read in; it is always written in the newest
	id      [16]byte // drawn anew for each log
	created int64    // Unix microseconds, for people
	boot    [16]byte // the boot in which it was written, zero if unknown
	host    [16]byte // hash of the host's name
	given   bool     // the owner keeps the secret; secret is its fingerprint
	secret  [32]byte
}

func (h *header) encode() []byte {
	b := make([]byte, 0, headSize)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint64(b, version)
	b = append(b, h.id[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.created))
	b = append(b, h.boot[:]...)
	b = append(b, h.host[:]...)
	b = append(b, bit(h.given, 1))
	b = append(b, h.secret[:]...)
	b = b[:headSize-sumSize]
	s := sumOf(b)
	return append(b, s[:]...)
}

// decodeHeader reads a header and returns its sum, from which those of the frames go on.
func decodeHeader(b []byte) (h header, s sum, err error) {
	if string(b[:8]) != magic {
		return h, s, errors.New("it does not begin as a sluice ledger")
	}
	if h.version = binary.LittleEndian.Uint64(b[8:]); h.version > version && h.version < 1<<16 {
		return h, s, fmt.Errorf("it has format version %d and this program reads version %d: use the newer program", h.version, version)
	}
	s = sum(b[headSize-sumSize:])
	if sumOf(b[:headSize-sumSize]) != s {
		return h, s, errors.New("the header's checksum is wrong")
	}
	r := &reader{rest: b[16:]}
	copy(h.id[:], r.take(16))
	h.created = int64(r.fixed())
	copy(h.boot[:], r.take(16))
	copy(h.host[:], r.take(16))
	h.given = r.byte() == 1
	copy(h.secret[:], r.take(32))
	return h, s, nil
}

// A stamp is when a frame was written: by the store's time, by the wall clock, and by
// the time since the machine was started, all in microseconds.
type stamp struct {
	now      limit.Micros
	wall, up int64
}

// A position is a place between two frames.
type position struct {
	end int64  // where the next frame begins
	seq uint64 // frames before it
	sum sum    // of the last of them, or of the header
}

// mark says that everything before p is confirmed.
func (p position) mark(head sum) []byte {
	b := make([]byte, 0, markSize)
	b = binary.LittleEndian.AppendUint64(b, uint64(p.end))
	b = binary.LittleEndian.AppendUint64(b, p.seq)
	b = append(b, p.sum[:]...)
	s := sumOf(head[:], b)
	return append(b, s[:]...)
}

func decodeMark(b []byte, head sum) (position, error) {
	if sumOf(head[:], b[:markSize-sumSize]) != sum(b[markSize-sumSize:]) {
		return position{}, errors.New("the checksum of the mark that says how much is confirmed is wrong")
	}
	return position{
		end: int64(binary.LittleEndian.Uint64(b)), seq: binary.LittleEndian.Uint64(b[8:]), sum: sum(b[16:32]),
	}, nil
}

// A journal is a log that is being written. It is used by one goroutine.
type journal struct {
	file *os.File
	head sum
	// confirmed is what the mark says; written is ahead of it during a write.
	confirmed, written position
	size               int64 // of the file; what is beyond written is zeros
	base               int64 // where the frames that hold everything end
	records            int   // how many grants those are of
	filling            bool  // being filled: whatever is written is synced once, at the end
	frame              []byte
	// suspect is set when a sync has failed: the system may have dropped pages it could
	// not write and say later that all is well.
	suspect bool
}

// create begins a log in a new file.
func create(path string, h header) (*journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	first := make([]byte, framesAt)
	copy(first, h.encode())
	err = f.Chmod(0o600) // what an earlier process has left behind may have another mode
	if err == nil {
		_, err = f.WriteAt(first, 0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	j := &journal{file: f, head: sum(first[headSize-sumSize : headSize]), size: framesAt}
	j.written = position{end: framesAt, sum: j.head}
	return j, nil
}

// put writes a frame behind what is written.
func (j *journal) put(at stamp, payload []byte) error {
	if len(payload) > maxPayload {
		return fmt.Errorf("%d bytes at once are more than a frame holds", len(payload))
	}
	b := binary.LittleEndian.AppendUint32(j.frame[:0], frameMagic)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint64(b, j.written.seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(at.now))
	b = binary.LittleEndian.AppendUint64(b, uint64(at.wall))
	b = binary.LittleEndian.AppendUint64(b, uint64(at.up))
	b = append(b, payload...)
	s := sumOf(j.written.sum[:], b)
	b = append(b, s[:]...)
	j.frame = b
	if err := j.reserve(int64(len(b))); err != nil {
		return err
	}
	if _, err := j.file.WriteAt(b, j.written.end); err != nil {
		return err
	}
	j.written.end += int64(len(b))
	j.written.seq++
	j.written.sum = s
	j.size = max(j.size, j.written.end)
	return nil
}

// reserveBytes of room are made at a time: less would be done all the time, and more
// would keep the callers of one write waiting for a megabyte.
const reserveBytes = 256 << 10

var zeros [64 << 10]byte

// reserve makes room for n more bytes. The room is zeros that have been written: a sync
// of what then takes their place need not wait for the file system to note a new size,
// which is two to three times as fast, and a full disk is met here, before a frame is
// begun.
func (j *journal) reserve(n int64) error {
	need := j.written.end + n
	if need <= j.size || j.filling {
		return nil
	}
	room := max(need-j.size, reserveBytes)
	for room > 0 {
		b := zeros[:min(room, int64(len(zeros)))]
		if _, err := j.file.WriteAt(b, j.size); err != nil {
			return err
		}
		j.size += int64(len(b))
		room -= int64(len(b))
	}
	return nil
}

// commit makes what is written last through a power cut, and marks it. The mark itself
// is on its way to the disk: a kill of the process does not lose it, and after a power
// cut a whole frame behind the mark counts as well.
func (j *journal) commit() error {
	if err := datasync(j.file); err != nil {
		j.suspect = true
		return err
	}
	if _, err := j.file.WriteAt(j.written.mark(j.head), markAt); err != nil {
		j.suspect = true
		return err
	}
	j.confirmed = j.written
	return nil
}

// append writes a frame and confirms it. After an error the frame is not part of the log.
func (j *journal) append(at stamp, payload []byte) error {
	err := j.put(at, payload)
	if err == nil {
		err = j.commit()
	}
	if err != nil {
		j.written = j.confirmed
		// A whole frame behind the mark would count at the next start. If this fails as well
		// the log is suspect, or there is no whole frame.
		j.file.WriteAt(make([]byte, frameHead), j.confirmed.end)
	}
	return err
}

// grown reports whether the log should be written anew: as much of it is out of date as
// is not. It cannot tell, but knows what it began with, and is told how many records there
// are now and how many bytes each takes.
func (j *journal) grown(records, each int) bool {
	live := j.base + int64(max(0, records-j.records)*each)
	return j.confirmed.end-j.base > 1<<20 && j.confirmed.end > 2*live
}

func (j *journal) close() error {
	return errors.Join(j.file.Sync(), j.file.Close())
}

// readFrame reads the frame at p. ok is false, without an error, if there is none whole.
func readFrame(f io.ReaderAt, size int64, p position) (payload []byte, at stamp, next position, ok bool) {
	var head [frameHead]byte
	if p.end+frameHead > size {
		return nil, at, p, false
	}
	if _, err := f.ReadAt(head[:], p.end); err != nil || binary.LittleEndian.Uint32(head[:]) != frameMagic {
		return nil, at, p, false
	}
	n := int64(binary.LittleEndian.Uint32(head[4:]))
	if n > maxPayload || p.end+frameHead+n+sumSize > size || binary.LittleEndian.Uint64(head[8:]) != p.seq {
		return nil, at, p, false
	}
	b := make([]byte, n+sumSize)
	if _, err := f.ReadAt(b, p.end+frameHead); err != nil {
		return nil, at, p, false
	}
	payload = b[:n]
	next = position{end: p.end + frameHead + n + sumSize, seq: p.seq + 1, sum: sum(b[n:])}
	if sumOf(p.sum[:], head[:], payload) != next.sum {
		return nil, at, p, false
	}
	at.now = limit.Micros(binary.LittleEndian.Uint64(head[16:]))
	at.wall = int64(binary.LittleEndian.Uint64(head[24:]))
	at.up = int64(binary.LittleEndian.Uint64(head[32:]))
	return payload, at, next, true
}
