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

// speculations holds back what clauses recorded behind speculate(), until it is committed or
// discarded.
type speculations struct {
	used *ebpf.Memory // of gen.MapSpec: a u64 each, 0: free
	held map[int64][]*Record
	// of what is held for each, as dtrace counts it: a string has the bytes of the longest one
	size map[int64]int
	most int    // bytes that each may have
	full uint64 // records that did not fit, and were not reported
}

// maxSpeculationBytes is how many bytes a speculation may hold, if -x specsize does not say it.
const maxSpeculationBytes = 64 << 20

// slot returns where the state of a speculation is; !ok: there is none of that number.
func (s *speculations) slot(n int64) (off int64, ok bool) {
	return (n - 1) * 8, s.used != nil && n >= 1 && n <= int64(s.used.Size())/8
}

// inUse reports whether a speculation was given out and is not over: what comes for another is
// dropped, as dtrace does it.
func (s *speculations) inUse(n int64) bool {
	var b [8]byte
	off, ok := s.slot(n)
	if !ok {
		return false
	}
	_, err := s.used.ReadAt(b[:], off)
	return err == nil && binary.NativeEndian.Uint64(b[:]) != 0
}

// hold keeps a record until its speculation is over, if it fits.
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

// end returns what was held back for a speculation, whose number can be given out again.
func (s *speculations) end(n int64) []*Record {
	list := s.held[n]
	delete(s.held, n)
	delete(s.size, n)
	if off, ok := s.slot(n); ok {
		s.used.WriteAt(
			make([]byte, 8), off,
		) //nolint:errcheck // it is writable, and the place is in it
	}
	return list
}

// deliverRecord delivers a record, unless its clause speculates: then it is kept until another
// clause commits it.
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

// speculations returns what is held back.
func (t *delivery) speculations() (*speculations, error) {
	if t.held == nil {
		most := maxSpeculationBytes
		if n := check.OptionBytes(t.session.script.Program.Options.All["specsize"]); n > 0 {
			most = int(min(n, 1<<32))
		}
		t.held = &speculations{held: map[int64][]*Record{}, size: map[int64]int{}, most: most}
		// nil: there is speculate(1) and no speculation()
		if m := t.session.maps.Maps[gen.MapSpec]; m != nil {
			used, err := m.Memory()
			if err != nil {
				return nil, fmt.Errorf("look at the speculations: %w", err)
			}
			t.held.used = used
		}
	}
	return t.held, nil
}
