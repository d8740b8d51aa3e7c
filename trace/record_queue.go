package trace

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"culprit/lang/check"
	"culprit/lang/ir"

	"github.com/cilium/ebpf/ringbuf"
)

// A recordQueue holds records between the ring buffer and the listener.
type recordQueue struct {
	ring       *ringbuf.Reader // nil: the script writes no records
	pending    []record        // read, but too recent to be delivered
	pass       uint64          // number of the last delivery of records
	delivering bool            // a delivery is under way
	stacks     *stackReader    // stores stacks of records; nil: the script has none
	held       *speculations   // nil: nothing speculated yet
	policy     *bufferPolicy   // nil: records are delivered while the script runs, or its end came
}

// A record is the bytes that one clause wrote into the ring buffer.
type record struct {
	time uint64
	cpu  uint32
	raw  []byte
}

// settle is how long a record may take from its time stamp to the ring buffer. Younger records wait
// for the next drain, so that those of other CPUs are delivered before them.
const settle = 2 * time.Millisecond

// drain reads the ring buffer and delivers the records by time and CPU. With all, no clause runs
// any more and no record waits for older ones.
func (s *Session) drain(d *delivery, all bool) error {
	q := &s.records
	if q.ring == nil {
		return nil
	}
	until := monotonic()
	if err := q.read(all); err != nil {
		return err
	}
	if q.policy != nil {
		if err := s.keepRecords(d); err != nil || !all {
			return err
		}
		q.policy = nil
	}
	s.symbols.catchUp() // records may ask for names
	slices.SortStableFunc(q.pending, func(a, b record) int {
		return cmp.Or(cmp.Compare(a.time, b.time), int(a.cpu)-int(b.cpu))
	})
	n := len(q.pending)
	if !all {
		settled := until - uint64(settle)
		n, _ = slices.BinarySearchFunc(q.pending, settled, func(r record, t uint64) int {
			if r.time < t {
				return -1
			}
			return 1
		})
		n = q.wholeFirings(n, s.script.IR)
	}
	ready := slices.Clone(q.pending[:n]) // an ERROR clause may make drain read on
	q.pending = slices.Delete(q.pending, 0, n)
	q.pass++
	q.delivering = true
	defer func() { q.delivering = false }()
	for _, r := range ready {
		if err := d.deliver(r.raw); err != nil {
			return err
		}
	}
	return d.to.Pause()
}

// wholeFirings returns how many of the first n pending records can be delivered so that no firing
// is delivered in parts. printa() and clear() of one firing then see the same values.
func (q *recordQueue) wholeFirings(n int, p *ir.Program) int {
	type source struct{ cpu, thread, probe uint32 }
	of := func(r *record) source {
		return source{
			r.cpu,
			binary.NativeEndian.Uint32(r.raw[20:]),
			binary.NativeEndian.Uint32(r.raw[12:]),
		}
	}
	later := map[source]int{} // the clause of the first record that is too recent
	for i := n; i < len(q.pending); i++ {
		r := &q.pending[i]
		if _, have := later[of(r)]; !have {
			later[of(r)] = clauseOf(r.raw, p)
		}
	}
	for i := n - 1; i >= 0 && len(later) > 0; i-- {
		r := &q.pending[i]
		next, have := later[of(r)]
		if !have {
			continue
		}
		if c := clauseOf(r.raw, p); c < next { // the clauses of a firing run in their order
			later[of(r)], n = c, i
		} else {
			delete(later, of(r))
		}
	}
	return n
}

// clauseOf returns the number of the clause that wrote a record, or 0 when the kind of the record
// is unknown.
func clauseOf(raw []byte, p *ir.Program) int {
	switch n := binary.NativeEndian.Uint32(raw[8:]); {
	case n == ir.FaultRecord && len(raw) >= 28:
		return int(binary.NativeEndian.Uint32(raw[24:]))
	case int(n) < len(p.Records):
		return p.Records[n].Clause
	}
	return 0
}

// maxRecordsPerRead is how many records one drain reads at most. A script that writes records
// without end must not block the goroutine that runs it.
const maxRecordsPerRead = 1 << 16

// read reads the records in the ring buffer without waiting: with all also more than
// maxRecordsPerRead, once no program writes any more.
func (q *recordQueue) read(all bool) error {
	q.ring.SetDeadline(time.Unix(0, 0))
	var r ringbuf.Record
	for n := 0; all || n < maxRecordsPerRead; n++ {
		if err := q.ring.ReadInto(&r); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return nil
			}
			return fmt.Errorf("read the ring buffer: %w", err)
		}
		if len(r.RawSample) < ir.RecordHeader {
			return fmt.Errorf("a record of %d bytes is shorter than its header", len(r.RawSample))
		}
		raw := slices.Clone(r.RawSample)
		if q.stacks != nil {
			q.stacks.storeRecord(raw)
		}
		q.pending = append(q.pending, record{
			binary.NativeEndian.Uint64(raw), binary.NativeEndian.Uint32(raw[16:]), raw,
		})
	}
	return nil
}

// readWritten reads all records that were written before. Those that are written meanwhile may
// remain.
func (q *recordQueue) readWritten() error {
	before := len(q.pending)
	for left := q.ring.BufferSize(); left > 0; {
		if err := q.read(false); err != nil {
			return err
		}
		if len(q.pending) < before+maxRecordsPerRead { // the ring was empty
			return nil
		}
		for _, r := range q.pending[before:] {
			left -= len(r.raw)
		}
		before = len(q.pending)
	}
	return nil
}

// eachStack calls visit with the number of each stack in a record that was not delivered yet.
func (q *recordQueue) eachStack(visit func(n uint32)) {
	if q.stacks == nil {
		return
	}
	all := func(raw []byte) {
		kind := binary.NativeEndian.Uint32(raw[8:])
		if int(kind) >= len(q.stacks.records) {
			return
		}
		for _, f := range q.stacks.records[kind] {
			if f.Offset+f.Size <= len(raw) {
				visit(binary.NativeEndian.Uint32(raw[f.Offset:]))
			}
		}
	}
	for _, r := range q.pending {
		all(r.raw)
	}
	if q.held == nil {
		return
	}
	for _, records := range q.held.held {
		for _, r := range records {
			all(r.raw)
		}
	}
}

// Aggregates reads aggregations and returns them with all that was added until now, or until the
// current delivery of records began. It fails when a map cannot be read.
func (s *Session) Aggregates(of []*check.Aggregation) ([]*Aggregate, error) {
	all := make([]*Aggregate, len(of))
	var due []*Aggregate
	s.symbols.catchUp()
	for i, a := range of {
		if a.Array != nil {
			var err error
			if all[i], err = s.arrayTable(a); err != nil {
				return nil, err
			}
			continue
		}
		all[i] = s.aggs.all[a.ID]
		due = append(due, all[i])
	}
	err := s.collect(due...)
	for _, a := range due {
		a.nameRows()
	}
	return all, err
}
