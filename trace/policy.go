package trace

import (
	"encoding/binary"
	"fmt"
	"slices"

	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/ir"
)

// A bufferPolicy is which records are printed at the end, when none are printed before: -x
// bufpolicy=ring keeps the last ones of each CPU, bufpolicy=fill the first ones, and ends the
// script when a CPU's are full. Records of END come after them and are always printed.
type bufferPolicy struct {
	fill    bool
	most    int            // bytes of records per CPU: -x bufsize
	counted int            // records of the queue that bytes contains; of fill
	bytes   map[uint32]int // by CPU; of fill
	full    bool           // a CPU has more than most; of fill
}

// defaultBuffer is the bytes of records per CPU without -x bufsize, as in dtrace.
const defaultBuffer = 4 << 20

// newBufferPolicy returns the policy of a script; nil: its records are printed while it runs.
func newBufferPolicy(options map[string]string) *bufferPolicy {
	name := options["bufpolicy"]
	if name != "ring" && name != "fill" {
		return nil
	}
	most := check.OptionBytes(options["bufsize"])
	if most <= 0 {
		most = defaultBuffer
	}
	return &bufferPolicy{fill: name == "fill", most: int(most), bytes: map[uint32]int{}}
}

// keep returns the records that remain, of those that were kept before and those behind them.
func (p *bufferPolicy) keep(all []record) []record {
	if p.fill {
		kept := all[:p.counted]
		for _, r := range all[p.counted:] {
			if p.bytes[r.cpu] += len(r.raw); p.bytes[r.cpu] > p.most {
				p.full = true
				continue
			}
			kept = append(kept, r)
		}
		clear(all[len(kept):])
		p.counted = len(kept)
		return kept
	}
	newer := map[uint32]int{} // bytes by CPU
	first := len(all)
	for i := len(all) - 1; i >= 0; i-- {
		r := all[i]
		if newer[r.cpu] += len(r.raw); newer[r.cpu] <= p.most {
			first--
			all[first] = r
		}
	}
	return slices.Delete(all, 0, first)
}

// keepRecords applies the policy to the records that were read, and reports faults at once.
func (s *Session) keepRecords(d *delivery) error {
	q := &s.records
	var faults []record
	isFault := func(r record) bool {
		return binary.NativeEndian.Uint32(r.raw[8:]) == ir.FaultRecord
	}
	from := q.policy.counted // fill has none before
	for _, r := range q.pending[from:] {
		if isFault(r) {
			faults = append(faults, r)
		}
	}
	if len(faults) > 0 {
		q.pending = slices.DeleteFunc(q.pending, isFault)
	}
	q.pending = q.policy.keep(q.pending)
	if q.policy.full {
		if err := s.programs.setState(gen.Draining); err != nil {
			return fmt.Errorf("stop the clauses: %w", err)
		}
	}
	for _, r := range faults {
		if err := d.deliver(r.raw); err != nil {
			return err
		}
	}
	return d.to.Pause()
}
