package trace

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/ir"

	"github.com/cilium/ebpf"
)

// speculations hold records of clauses that called speculate(), until they are committed or
// discarded.
type speculations struct {
	used *ebpf.Memory // gen.MapSpec: one u64 per speculation, 0: free
	held map[int64][]*Record
	// size is the bytes of the held records, as dtrace counts them: a string has the greatest
	// length.
	size map[int64]int
	most int    // the limit of size
	full uint64 // records that did not fit and are not reported yet
}

// maxSpeculationBytes is how many bytes a speculation may hold without -x specsize.
const maxSpeculationBytes = 64 << 20

// slot returns the offset of a speculation's state in used. It returns false for an unknown number.
func (s *speculations) slot(n int64) (off int64, ok bool) {
	return (n - 1) * 8, s.used != nil && n >= 1 && n <= int64(s.used.Size())/8
}

// inUse reports whether a speculation was created and not yet committed or discarded. As in dtrace,
// records for any other are dropped.
func (s *speculations) inUse(n int64) bool {
	var b [8]byte
	off, ok := s.slot(n)
	if !ok {
		return false
	}
	_, err := s.used.ReadAt(b[:], off)
	return err == nil && binary.NativeEndian.Uint64(b[:]) != 0
}

// hold keeps a record until its speculation ends, if it fits.
func (s *speculations) hold(n int64, r *Record) {
	size := ir.RecordHeader
	for _, a := range r.Actions {
		for _, f := range a.Fields {
			if _, ok := f.Type.(check.StringType); ok {
				size += r.most
			} else if f.Type != nil {
				size += int(f.Type.Size())
			}
		}
	}
	if s.size[n]+size > s.most {
		s.full++
		return
	}
	s.size[n] += size
	kept := *r
	kept.raw = bytes.Clone(r.raw)
	s.held[n] = append(s.held[n], &kept)
}

// lost reports records that did not fit.
func (s *speculations) lost(to Listener) error {
	if s == nil || s.full == 0 {
		return nil
	}
	n := s.full
	s.full = 0
	return to.Drops(ir.DropHeld, 0, n)
}

// end returns the records that were held for a speculation, and releases its number.
func (s *speculations) end(n int64) []*Record {
	list := s.held[n]
	delete(s.held, n)
	delete(s.size, n)
	if off, ok := s.slot(n); ok {
		s.used.WriteAt(make([]byte, 8), off) //nolint:errcheck // writable, and off is within it
	}
	return list
}

// deliverRecord delivers a record, unless its clause speculates: then the record is held until
// another clause commits it.
func (t *delivery) deliverRecord(r *Record) error {
	for i, a := range r.Actions {
		kind := a.Action.Action.Kind
		switch kind {
		case check.Speculate, check.Commit, check.Discard:
		default:
			continue
		}
		s, err := t.speculations()
		if err != nil {
			return err
		}
		n := r.Value(i, 0).Int
		if kind == check.Speculate {
			if s.inUse(n) {
				s.hold(n, r)
			}
			return nil
		}
		for _, held := range s.end(n) {
			if kind == check.Commit {
				if err := t.to.Record(held); err != nil {
					return err
				}
			}
		}
	}
	return t.to.Record(r)
}

// speculations returns the held records. The first call opens the map of their states.
func (t *delivery) speculations() (*speculations, error) {
	if t.held == nil {
		most := maxSpeculationBytes
		if n := check.OptionBytes(t.session.script.Program.Options.All["specsize"]); n > 0 {
			most = int(min(n, 1<<32))
		}
		t.held = &speculations{held: map[int64][]*Record{}, size: map[int64]int{}, most: most}
		t.session.records.held = t.held
		// Without the map, the script has speculate(1) and no speculation().
		if m := t.session.programs.maps.Maps[gen.MapSpec]; m != nil {
			used, err := m.Memory()
			if err != nil {
				return nil, fmt.Errorf("map the states of speculations: %w", err)
			}
			t.held.used = used
		}
	}
	return t.held, nil
}
