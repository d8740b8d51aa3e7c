package remotewrite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"culprit/measure"
	"culprit/wire"
)

// The file of a target has its position in the recording, and what was sent of each row. So a
// restart goes on where the server ended: no sample is missing, and counters continue. A sample
// that is sent twice has the same value both times, which receivers accept.
//
//	magic     "culprit remote write 1\n"
//	checksum  CRC-32C of what follows, 4 bytes, big-endian
//	identity  address, interval, histograms and labels: another identity begins from now
//	first, from
//	metrics   number; for each its name and rows
//	row       key; flags 1 present, 2 sent; sum, seen, last, distribution, counted cells
//
// Integers are varints, as in package wire.
const (
	fileMagic = "culprit remote write 1\n"
	// maxFile is the size in bytes above which a file is not read.
	maxFile = 64 << 20
	// maxCounts limits the buckets of a distribution: Base 6 has 3,776.
	maxCounts = 1 << 13
)

const (
	flagPresent byte = 1 << iota
	flagSent
)

// checksum returns the CRC-32C of b.
func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// identity returns what the samples of a target depend on, without secrets.
func (w *Writer) identity() string {
	u := *w.to.url
	u.User = nil
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v %s", u.String(), w.step, w.to.target.Histograms)
	for _, l := range w.labels {
		fmt.Fprintf(&b, " %s=%q", l.Name, l.Value)
	}
	return b.String()
}

// path returns the file of the target, "" for none.
func (w *Writer) path() string {
	if w.source.Dir == "" {
		return ""
	}
	return filepath.Join(w.source.Dir, w.to.target.Name)
}

// save writes the file: the old one stays until the new one is complete.
func (w *Writer) save() error {
	path := w.path()
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(w.source.Dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(w.source.Dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(w.encode())
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// load reads the file. It leaves the writer as it is if there is none, or one of another identity.
// An error means that the file can't be read.
func (w *Writer) load() error {
	path := w.path()
	if path == "" {
		return nil
	}
	left, _ := filepath.Glob(filepath.Join(w.source.Dir, ".new-*")) // of a killed server
	for _, name := range left {
		_ = os.Remove(name)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return fmt.Errorf("%s is not a file of positions", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	got, err := decode(b, w.identity())
	if err != nil {
		return fmt.Errorf("%s is damaged: %w", path, err)
	}
	if got == nil || got.from > w.from { // the clock was set back
		return nil
	}
	w.sent = *got
	return nil
}

// encode returns the contents of the file.
func (w *Writer) encode() []byte {
	b := wire.AppendString(nil, w.identity())
	b = wire.AppendInt(wire.AppendInt(b, int64(w.first)), int64(w.from))
	b = wire.AppendUint(b, uint64(len(w.rows)))
	for name, rows := range w.rows {
		b = wire.AppendUint(wire.AppendString(b, name), uint64(len(rows)))
		for _, r := range rows {
			b = r.append(b)
		}
	}
	return sealed(b)
}

// sealed returns a payload behind magic and checksum.
func sealed(payload []byte) []byte {
	b := append(make([]byte, 0, len(fileMagic)+4+len(payload)), fileMagic...)
	return append(binary.BigEndian.AppendUint32(b, checksum(payload)), payload...)
}

func (r *row) append(b []byte) []byte {
	var flags byte
	if r.present {
		flags |= flagPresent
	}
	if r.sent {
		flags |= flagSent
	}
	b = append(wire.AppendStrings(b, r.key), flags)
	b = wire.AppendFloat(b, r.sum)
	b = wire.AppendInt(wire.AppendInt(b, int64(r.seen)), int64(r.last))
	b = appendDist(b, &r.dist)
	b = wire.AppendUint(b, uint64(len(r.counted)))
	for i := range r.counted {
		b = appendDist(wire.AppendFloat(b, r.counted[i].amount), &r.counted[i].dist)
	}
	return b
}

func appendDist(b []byte, d *measure.Dist) []byte {
	b = wire.AppendUint(b, uint64(len(d.Counts)))
	if len(d.Counts) == 0 {
		return b
	}
	b = wire.AppendInt(append(b, d.Base), int64(d.First))
	for _, n := range d.Counts {
		b = wire.AppendUint(b, n)
	}
	return b
}

// decode reads a file; nil: it is of another identity.
func decode(b []byte, identity string) (*sent, error) {
	rest, ok := bytes.CutPrefix(b, []byte(fileMagic))
	if !ok || len(rest) < 4 {
		return nil, wire.Invalid("it does not begin with %q", fileMagic)
	}
	if binary.BigEndian.Uint32(rest) != checksum(rest[4:]) {
		return nil, wire.Invalid("the checksum differs")
	}
	d := &wire.Decoder{Rest: rest[4:]}
	if d.String() != identity && d.Err == nil {
		return nil, nil
	}
	s := &sent{
		first: measure.Time(d.Int()), from: measure.Time(d.Int()),
		rows: map[string]map[string]*row{},
	}
	for range d.Count(2) {
		name := d.String()
		n := d.Count(30)
		rows := make(map[string]*row, n)
		for range n {
			r := readRow(d)
			if d.Err != nil {
				break
			}
			rows[strings.Join(r.key, "\xff")] = r
		}
		s.rows[name] = rows
	}
	return s, d.End()
}

// readRow reads what row.append has written.
func readRow(d *wire.Decoder) *row {
	r := &row{key: d.Strings()}
	flags := d.Byte()
	r.present, r.sent = flags&flagPresent != 0, flags&flagSent != 0
	r.sum, r.seen, r.last = d.Float(), measure.Time(d.Int()), measure.Time(d.Int())
	r.dist = readDist(d)
	n := d.Count(9)
	if n > lateCells(measure.Second) {
		d.Fail("%d counted cells", n)
		return r
	}
	for range n {
		r.counted = append(r.counted, cell{amount: d.Float(), dist: readDist(d)})
	}
	return r
}

func readDist(d *wire.Decoder) (out measure.Dist) {
	n := d.Count(1)
	if n == 0 {
		return out
	}
	out.Base = d.Byte()
	first := d.Int()
	if out.Base > 6 || n > maxCounts || first < 0 || first+int64(n) > maxCounts {
		d.Fail("%d buckets of base %d from %d", n, out.Base, first)
		return measure.Dist{}
	}
	out.First, out.Counts = int32(first), make([]uint64, n)
	for i := range out.Counts {
		out.Counts[i] = d.Uint()
	}
	return out
}
