package perfdata

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// recordHead is the bytes of the head of a record: type, misc and size.
const recordHead = 8

// The types of records that are read.
//
// table: enum perf_event_type, tools/lib/perf/include/perf/event.h
const (
	recordMmap        = 1
	recordLost        = 2
	recordComm        = 3
	recordExit        = 4
	recordFork        = 7
	recordSample      = 9
	recordMmap2       = 10
	recordLostSamples = 13
	recordAttr        = 64
	recordTracing     = 66
	recordBuildID     = 67
	recordRound       = 68
	recordAuxtrace    = 71
	recordFeature     = 80
	recordCompressed  = 81
	recordCompressed2 = 83
)

// Bits of misc.
const (
	miscMode        = 7       // which code: of the kernel 1, of a user 2
	miscExec        = 1 << 13 // of recordComm: by an exec
	miscBuildID     = 1 << 14 // of recordMmap2: it has the build ID
	miscBuildIDSize = 1 << 15 // of recordBuildID: its size is known
)

// records reads the records of size bytes; 0: up to the end of the file.
func (r *reader) records(size uint64) error {
	end := int64(-1)
	if size > 0 {
		if size > 1<<62 {
			return r.wrong("%d bytes of data", size)
		}
		end = r.at + int64(size)
	}
	r.zstd = &inner{r: r, end: end}
	for {
		more, err := r.record(end)
		if err != nil {
			if err = r.ended(err); err != nil {
				return err
			}
			break
		}
		if !more {
			break
		}
	}
	return r.queue.flush(r, ^uint64(0))
}

// ended returns the error of reading records. A file that ends early is no error: what precedes
// counts, and File.Cut says so.
func (r *reader) ended(err error) error {
	if r.err != nil {
		return r.err
	}
	var end *endError
	if errors.As(err, &end) || errors.Is(err, io.ErrUnexpectedEOF) {
		r.file.Cut = true
		return nil
	}
	return err
}

// record reads one record of the file; false: there is none before end.
func (r *reader) record(end int64) (bool, error) {
	if end >= 0 && r.at >= end {
		return false, nil
	}
	if _, err := r.in.Peek(1); end < 0 && errors.Is(err, io.EOF) {
		return false, nil
	}
	b, err := r.next(&r.buf, r.fill)
	if err != nil {
		return false, err
	}
	switch kind := binary.LittleEndian.Uint32(b); kind {
	case recordCompressed:
		r.zstd.part = append(r.zstd.part[:0], b[recordHead:]...)
	case recordCompressed2:
		if len(b) < recordHead+8 {
			return false, r.wrong("a compressed record of %d bytes", len(b))
		}
		n := binary.LittleEndian.Uint64(b[recordHead:])
		r.zstd.part = append(r.zstd.part[:0], b[recordHead+8:]...)
		r.zstd.part = r.zstd.part[:min(n, uint64(len(r.zstd.part)))]
	default:
		return true, r.handle(b)
	}
	if r.zstd.reading { // its reader asked for this record
		return true, nil
	}
	return true, r.zstd.all()
}

// next reads a record into a buffer by fill.
func (r *reader) next(buf *[]byte, fill func([]byte) error) ([]byte, error) {
	if *buf == nil {
		*buf = make([]byte, maxRecord)
	}
	head := (*buf)[:recordHead]
	if err := fill(head); err != nil {
		return nil, err
	}
	size := int(binary.LittleEndian.Uint16(head[6:]))
	if size < recordHead {
		return nil, r.wrong("a record of %d bytes", size)
	}
	return (*buf)[:size], fill((*buf)[recordHead:size])
}

// An inner reads the records within compressed records. The compressed bytes of all records are one
// stream, and a record may begin in one and end in another.
type inner struct {
	r       *reader
	end     int64 // of the outer records
	part    []byte
	reading bool
	done    bool // the outer records have ended
	z       *zstd.Decoder
	buf     []byte // of a record
}

// maxWindow is the largest window of zstd in bytes. perf's is that of its level.
const maxWindow = 32 << 20

// all reads records until the outer ones end.
func (i *inner) all() (err error) {
	i.r.charge(1 << 20)
	i.z, err = zstd.NewReader(i, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow), zstd.IgnoreChecksum(true))
	if err != nil {
		return err
	}
	defer i.z.Close()
	i.reading = true
	defer func() { i.reading = false }()
	for {
		b, err := i.r.next(&i.buf, i.fill)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := i.r.handle(b); err != nil {
			return err
		}
	}
}

// fill reads len(b) unpacked bytes. io.EOF: there are none.
func (i *inner) fill(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n, err := io.ReadFull(i.z, b)
	if n == 0 && i.done { // perf does not end the frame of zstd
		return io.EOF
	}
	var wrong *Error
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, &wrong) || i.r.err != nil {
		return err
	}
	return i.r.wrong("damaged compressed records: %v", err)
}

// Read implements io.Reader: the packed bytes of the outer records. Other outer records are handled
// when it reaches them, so that all keep their order.
func (i *inner) Read(b []byte) (int, error) {
	for len(i.part) == 0 {
		more, err := i.r.record(i.end)
		if err != nil {
			return 0, err
		}
		if !more {
			i.done = true
			return 0, io.EOF
		}
	}
	n := copy(b, i.part)
	i.part = i.part[n:]
	return n, nil
}

// handle reads a record that is not compressed.
func (r *reader) handle(b []byte) error {
	body := b[recordHead:]
	switch kind := binary.LittleEndian.Uint32(b); kind {
	case recordAttr:
		return r.attrRecord(body)
	case recordFeature:
		if len(body) >= 8 {
			if id := binary.LittleEndian.Uint64(body); id < mostFeatures {
				r.feature(int(id), body[8:])
			}
		}
	case recordBuildID:
		r.buildID(b)
	case recordRound:
		return r.queue.round(r)
	case recordTracing, recordAuxtrace:
		return r.skipTrailer(kind, body)
	default:
		if kind < recordAttr {
			return r.kernelRecord(b)
		}
	}
	return nil
}

// attrRecord reads the attributes of an event of perf record -o -: perf_event_attr, whose size is
// in it, and ids.
func (r *reader) attrRecord(b []byte) error {
	if len(b) < attrMin {
		return r.wrong("an event of %d bytes", len(b))
	}
	size := int(binary.LittleEndian.Uint32(b[4:]))
	if size < attrMin || size > len(b) {
		return r.wrong("an event of %d bytes in a record of %d bytes", size, len(b))
	}
	return r.event(b[:size], b[size:])
}

// skipTrailer skips what follows a record and is not part of its size.
func (r *reader) skipTrailer(kind uint32, body []byte) error {
	n := uint64(0)
	switch {
	case kind == recordTracing && len(body) >= 4:
		n = uint64(binary.LittleEndian.Uint32(body)+7) &^ 7
	case kind == recordAuxtrace && len(body) >= 8:
		n = binary.LittleEndian.Uint64(body)
	}
	if n > 1<<40 {
		return r.wrong("%d bytes follow a record", n)
	}
	return r.skip(int64(n))
}

// skip reads and drops bytes.
func (r *reader) skip(n int64) error {
	k, err := io.CopyN(io.Discard, r.in, n)
	r.at += k
	if errors.Is(err, io.EOF) {
		return r.endsHere()
	}
	return err
}

// ignoreEnd returns nil for the error of a file that ends early.
func ignoreEnd(err error) error {
	var end *endError
	if errors.As(err, &end) {
		return nil
	}
	return err
}
