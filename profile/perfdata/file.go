package perfdata

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// An Error is an error in a file.
type Error struct {
	Byte int64 // of the file
	What string
}

// Error returns the position and what is wrong.
func (e *Error) Error() string { return fmt.Sprintf("byte %d: %s", e.Byte, e.What) }

// The first bytes of a file, and its sizes.
const (
	Magic      = "PERFILE2"
	headerSize = 104 // bytes of the header of a file
	pipeSize   = 16  // bytes of the header of perf record -o -
	maxHead    = 64 << 20
	maxRecord  = 1 << 16
	maxEvents  = 4096
)

// A section is a part of the file.
type section struct{ offset, size uint64 }

// A reader reads a file once, from the start to the end.
type reader struct {
	in     *bufio.Reader
	at     int64 // bytes read
	charge func(bytes int)
	file   *File
	queue  queue
	world  world
	each   func(*Sample) error
	zstd   *inner // of compressed records; nil: none was read
	buf    []byte // of a record of the file
	err    error  // of each
}

// A File describes what was read.
type File struct {
	Events []Event
	Lost   uint64 // samples that the kernel dropped
	Cut    bool   // the file ends in the middle: perf record was killed
	// Unwalked means that the callers in user space were not walked when the file was recorded: it
	// has copies of stacks instead (perf record --call-graph dwarf).
	Unwalked bool
	// KernelText is the address of the kernel's _text when the file was recorded; 0: unknown.
	KernelText uint64
	// KernelBuildID is that of the kernel in hexadecimal; "": unknown.
	KernelBuildID string
	KernelRelease string // as uname -r prints it; "": unknown
	Machine       string // such as x86_64; "": unknown
}

// An Event is what samples were taken of.
type Event struct {
	Name   string // as perf names it; "": unknown
	Type   uint32 // PERF_TYPE_*
	Config uint64
	Stacks bool // samples have stacks
	attr   attr
}

// Read reads a file and calls each for every sample, in the order of time. A Sample and what it
// points to must not be changed; its Frames are valid during the call only. charge is called before
// memory is taken that stays, and may panic. The error is an *Error, that of r, or that of each.
func Read(in io.Reader, charge func(bytes int), each func(*Sample) error) (*File, error) {
	r := &reader{in: bufio.NewReaderSize(in, 1<<18), charge: charge, file: &File{}, each: each}
	r.world = newWorld(r)
	err := r.read()
	if r.err != nil {
		return nil, r.err
	}
	if err != nil {
		return nil, err
	}
	r.world.identify()
	return r.file, nil
}

func (r *reader) read() error {
	head, err := r.take(pipeSize)
	if err != nil {
		return err
	}
	if string(head[:8]) != Magic {
		return r.wrong("not a perf.data file of a little-endian machine")
	}
	size := binary.LittleEndian.Uint64(head[8:])
	if size == pipeSize {
		return r.records(0)
	}
	if size < headerSize || size > 1<<12 {
		return r.wrong("the header has %d bytes", size)
	}
	rest, err := r.take(int(size) - pipeSize)
	if err != nil {
		return err
	}
	attrSize := binary.LittleEndian.Uint64(rest)
	attrs, data := sectionAt(rest[8:]), sectionAt(rest[24:])
	var features [4]uint64
	for i := range features {
		features[i] = binary.LittleEndian.Uint64(rest[56+8*i:])
	}
	if err := r.events(attrSize, attrs, data.offset); err != nil {
		return err
	}
	if data.size == 0 { // perf record did not end
		r.file.Cut = true
	}
	if err := r.records(data.size); err != nil || r.file.Cut {
		return err
	}
	return r.features(features)
}

// events reads the attributes of the events, which precede the data.
func (r *reader) events(attrSize uint64, attrs section, data uint64) error {
	from := uint64(r.at)
	if data < from || data > maxHead {
		return r.wrong("the data begin at byte %d", data)
	}
	head, err := r.take(int(data - from))
	if err != nil {
		return err
	}
	part := func(s section) ([]byte, error) {
		if s.offset < from || s.offset > data || s.size > data-s.offset {
			return nil, r.wrong("bytes %d to %d precede no data", s.offset, s.offset+s.size)
		}
		return head[s.offset-from:][:s.size], nil
	}
	all, err := part(attrs)
	if err != nil {
		return err
	}
	if attrSize < attrMin+16 || uint64(len(all))%attrSize != 0 ||
		uint64(len(all))/attrSize > maxEvents {
		return r.wrong("%d bytes of events, %d each", len(all), attrSize)
	}
	for ; len(all) > 0; all = all[attrSize:] {
		ids, err := part(sectionAt(all[attrSize-16:]))
		if err != nil {
			return err
		}
		if err := r.event(all[:attrSize-16], ids); err != nil {
			return err
		}
	}
	return nil
}

// takeStep is how many bytes take reads at once, so that a size in a short file takes no memory.
const takeStep = 64 << 10

// take reads n bytes into memory of their own.
func (r *reader) take(n int) ([]byte, error) {
	var b []byte
	for len(b) < n {
		step := min(n-len(b), max(takeStep, len(b)))
		r.charge(step)
		b = append(b, make([]byte, step)...)
		if err := r.fill(b[len(b)-step:]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// fill reads len(b) bytes. The error is an *Error where the file ends.
func (r *reader) fill(b []byte) error {
	n, err := io.ReadFull(r.in, b)
	r.at += int64(n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return r.endsHere()
	}
	return err
}

// An endError is the Error of a file that ends too early.
type endError struct{ at *Error }

// Error returns the position.
func (e *endError) Error() string { return e.at.Error() }

// Unwrap returns the *Error.
func (e *endError) Unwrap() error { return e.at }

func (r *reader) endsHere() error {
	return &endError{&Error{r.at, "the file ends here, in the middle"}}
}

func (r *reader) wrong(format string, a ...any) error {
	return &Error{r.at, fmt.Sprintf(format, a...)}
}

func sectionAt(b []byte) section {
	return section{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
}
