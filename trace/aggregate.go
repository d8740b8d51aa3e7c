package trace

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/lang/ir"

	"github.com/cilium/ebpf"
)

// An Aggregate is an aggregation in user space: everything that was added until it was last read,
// without the rows that were cleared or truncated.
type Aggregate struct {
	format.Aggregation
	Of *ir.Agg

	rows    map[string][]int64 // by the bytes of the key: the row's Data
	kernel  replacedMap        // what programs add to
	cpus    int
	session *Session
	symbols bool            // the key has addresses that are printed by name
	stacks  []ir.TupleField // of the key
	unnamed int             // rows whose Key is not set yet; see nameRows
	pass    uint64          // of recordQueue, when the aggregation was last read
	taps    []*tap
	unkept  bool // no action of the script reads the rows: only taps do
	// counts of a count() is called with a key and what was added to it. The key is valid until
	// counts returns. It may be nil.
	counts  func(key []byte, n int64)
	batches batches
	array   *check.Var // it is the elements of this array; nil: an aggregation
}

func newAggregate(
	of *ir.Agg, spec *ebpf.MapSpec, outer *ebpf.Map, index uint32, s *Session,
) (*Aggregate, error) {
	a := &Aggregate{
		Of:      of,
		batches: batches{},
		rows:    map[string][]int64{},
		kernel: replacedMap{
			what: "aggregation @" + of.Agg.Name, outer: outer, index: index, spec: spec.InnerMap,
		},
		session: s,
	}
	a.Name, a.Func = of.Agg.Name, format.Function(of.Agg.Func)
	for _, f := range of.Key.Fields {
		switch f.Type.(type) {
		case check.SymbolType:
			a.symbols = !s.script.Program.Options.Bpftrace
		case check.StackType:
			a.stacks = append(a.stacks, f)
		}
	}
	var err error
	if a.Buckets, err = buckets(of.Agg); err != nil {
		return nil, err
	}
	if a.cpus, err = ebpf.PossibleCPU(); err != nil {
		return nil, fmt.Errorf("count the CPUs: %w", err)
	}
	if err := a.kernel.open(s.programs.shrunk > 1); err != nil {
		return nil, err
	}
	return a, nil
}

// buckets returns the arithmetic of a distribution.
func buckets(a *check.Aggregation) (format.Buckets, error) {
	var b format.Buckets
	var wrong *format.StepError
	switch a.Func {
	case check.Lquantize:
		b, wrong = format.LquantizeBuckets(a.Steps[0], a.Steps[1], a.Steps[2])
	case check.Llquantize:
		b, wrong = format.LlquantizeBuckets(a.Steps[0], a.Steps[1], a.Steps[2], a.Steps[3])
	}
	if wrong != nil {
		return b, fmt.Errorf("aggregation @%s: %w", a.Name, wrong)
	}
	return b, nil
}

// take moves the rows of a map, which no program adds to, into a.
func (a *Aggregate) take(m *ebpf.Map) error {
	cut, long := a.session.script.kernel.CutKey(a.Of.Key.Size + 8)
	long = long && a.Of.Key.Size > 0
	lost := 0
	err := a.batches.each(m, a.cpus, true, func(key []byte, values [][]byte) {
		if long {
			if key = cut.Restore(key, a.session.stacks.keyPiece); key == nil {
				lost++
				return
			}
		}
		a.add(key, values)
	})
	if err != nil {
		return fmt.Errorf("read aggregation @%s: %w", a.Name, err)
	}
	if lost > 0 {
		return fmt.Errorf(
			"read aggregation @%s: parts of %d keys are missing", a.Name, lost,
		)
	}
	return nil
}

// add adds the values of one key, one per CPU, as they were read.
func (a *Aggregate) add(key []byte, values [][]byte) {
	g, bucket := a.Of, 0
	if g.Key.Size == 0 {
		key = nil
	} else { // | key | u32 bucket | u32 CPU |
		bucket = int(binary.NativeEndian.Uint32(key[g.Key.Size:]))
		key = key[:g.Key.Size]
	}
	stored := len(a.stacks) > 0 && a.session.stacks.stores()
	if a.symbols || stored {
		key = slices.Clone(key)
	}
	if a.symbols {
		a.session.symbols.unify(key, g.Key.Fields)
	}
	if stored {
		events := uint64(0)
		for _, v := range values {
			events += eventsOf(g, v)
		}
		a.session.stacks.storeKey(key, a.stacks, events)
	}
	for _, t := range a.taps {
		t.add(key, values, bucket)
	}
	if a.counts != nil {
		n := int64(0)
		for _, v := range values {
			n += int64(binary.NativeEndian.Uint64(v))
		}
		if n > 0 {
			a.counts(key, n)
		}
	}
	if a.unkept {
		return
	}
	var data []int64
	if len(g.Key.Fields) > 0 {
		data = a.row(key) // the key has a row even when all its weights were 0
	}
	for _, v := range values {
		if !anything(g, v) {
			continue
		}
		if data == nil {
			data = a.row(key)
		}
		a.merge(data, v, bucket)
	}
}

// fresh returns the value of a key to which nothing was added.
func (a *Aggregate) fresh() []int64 {
	n := 1
	switch a.Func {
	case format.Avg:
		n = 2
	case format.Stddev:
		n = 4
	case format.Quantize, format.Lquantize, format.Llquantize:
		n = a.Buckets.Len()
	}
	one := format.Aggregation{
		Func:    a.Func,
		Buckets: a.Buckets,
		Rows:    []format.AggregationRow{{Data: make([]int64, n)}},
	}
	one.Clear()
	return one.Rows[0].Data
}

// row returns the value of a key. It creates the row, without its Key, if there is none.
func (a *Aggregate) row(key []byte) []int64 {
	if data := a.rows[string(key)]; data != nil {
		return data
	}
	row := format.AggregationRow{Data: a.fresh()}
	kept := slices.Clone(key)
	if len(a.Of.Key.Fields) > 0 {
		a.unnamed++
	}
	a.Rows = append(a.Rows, row)
	a.rows[string(kept)] = row.Data
	return row.Data
}

// nameRows sets the Key of rows that have none.
func (a *Aggregate) nameRows() {
	if a.unnamed == 0 || a.session.script.Program.Options.Bpftrace { // which is printed by EachRow
		return
	}
	a.unnamed = 0
	key := map[*int64]string{}
	for k, data := range a.rows {
		key[&data[0]] = k
	}
	for i := range a.Rows {
		row := &a.Rows[i]
		if row.Key != nil {
			continue
		}
		raw := []byte(key[&row.Data[0]])
		for _, f := range a.Of.Key.Fields {
			row.Key = append(row.Key, a.session.Key(raw, f))
		}
	}
}

// mergeStacks merges the rows of stacks that were discarded: in keys all these stacks are one.
func (a *Aggregate) mergeStacks() {
	store := &a.session.stacks.store
	var moved []string
	gone := map[*int64]bool{}
	for key, data := range a.rows {
		for _, f := range a.stacks {
			n := binary.NativeEndian.Uint32([]byte(key[f.Offset : f.Offset+4]))
			if n >= store.bit|firstStored && store.stacks[n] == nil {
				moved, gone[&data[0]] = append(moved, key), true
				break
			}
		}
	}
	a.Rows = slices.DeleteFunc(
		a.Rows, func(r format.AggregationRow) bool { return gone[&r.Data[0]] },
	)
	for _, key := range moved {
		data := a.rows[key]
		delete(a.rows, key)
		raw := []byte(key)
		for _, f := range a.stacks {
			n := binary.NativeEndian.Uint32(raw[f.Offset:])
			if n >= store.bit|firstStored && store.stacks[n] == nil {
				binary.NativeEndian.PutUint32(raw[f.Offset:], store.bit|otherStacks)
			}
		}
		a.join(a.row(raw), data)
	}
}

// merge adds the value of one CPU to data.
func (a *Aggregate) merge(data []int64, v []byte, bucket int) {
	word := func(i int) int64 { return int64(binary.NativeEndian.Uint64(v[8*i:])) }
	switch a.Of.Agg.Func {
	case check.Count, check.Sum:
		data[0] += word(0)
	case check.Min:
		data[0] = min(data[0], word(0))
	case check.Max:
		data[0] = max(data[0], word(0))
	case check.Avg:
		data[0] += word(1)
		data[1] += word(0)
	case check.Stddev:
		data[0] += word(0)
		data[1] += word(1)
		low, carry := bits.Add64(uint64(data[2]), uint64(word(2)), 0)
		high, _ := bits.Add64(uint64(data[3]), uint64(word(3)), carry)
		data[2], data[3] = int64(low), int64(high)
	default:
		if a.Of.Sparse {
			if bucket < len(data) {
				data[bucket] += word(0)
			}
			return
		}
		if a.Of.Marked {
			v = v[8:]
		}
		for i := range data {
			data[i] += word(i)
		}
	}
}

// eventsOf returns how often something was added to a value, by weight in distributions.
func eventsOf(g *ir.Agg, v []byte) (n uint64) {
	switch g.Agg.Func {
	case check.Count, check.Stddev:
		return binary.NativeEndian.Uint64(v)
	case check.Sum, check.Avg, check.Min, check.Max:
		return binary.NativeEndian.Uint64(v[8:])
	}
	if g.Marked {
		v = v[8:]
	}
	for ; len(v) >= 8; v = v[8:] {
		n += binary.NativeEndian.Uint64(v)
	}
	return n
}

// anything reports whether anything was ever added to a value.
func anything(g *ir.Agg, v []byte) bool {
	switch g.Agg.Func {
	case check.Count, check.Stddev:
		return binary.NativeEndian.Uint64(v) != 0
	case check.Sum, check.Avg, check.Min, check.Max:
		return binary.NativeEndian.Uint64(v[8:]) != 0
	}
	if g.Marked {
		return binary.NativeEndian.Uint64(v) != 0
	}
	for ; len(v) >= 8; v = v[8:] {
		if binary.NativeEndian.Uint64(v) != 0 {
			return true
		}
	}
	return false
}

// Truncate keeps the n rows with the greatest values, or with n below 0 the -n rows with the least.
func (a *Aggregate) Truncate(n int64) {
	a.Aggregation.Truncate(n)
	remain := map[*int64]bool{}
	for i := range a.Rows {
		remain[&a.Rows[i].Data[0]] = true
	}
	maps.DeleteFunc(a.rows, func(_ string, data []int64) bool { return !remain[&data[0]] })
}
