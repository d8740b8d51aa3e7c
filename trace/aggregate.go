package trace

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"runtime"
	"slices"

	"culprit/kernel/bpf"
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

	rows  map[string][]int64 // by the bytes of the key: the row's Data
	outer *ebpf.Map          // array of maps
	index uint32             // of inner in outer
	inner *ebpf.Map          // the map that programs add to now
	// spare is the empty map that programs will add to next; nil: none was needed yet.
	spare   *ebpf.Map
	spec    *ebpf.MapSpec
	cpus    int
	session *Session
	symbols bool       // the key has addresses that are printed by name
	pass    uint64     // of recordQueue, when the aggregation was last read
	placing chan error // receives when the first map is in outer; nil: it is
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
		outer:   outer,
		index:   index,
		spec:    spec.InnerMap,
		session: s,
	}
	a.Name, a.Func = of.Agg.Name, format.Function(of.Agg.Func)
	for _, f := range of.Key.Fields {
		if _, ok := f.Type.(check.SymbolType); ok {
			a.symbols = !s.script.Program.Options.Bpftrace
		}
	}
	var err error
	if a.Buckets, err = buckets(of.Agg); err != nil {
		return nil, err
	}
	if a.cpus, err = ebpf.PossibleCPU(); err != nil {
		return nil, fmt.Errorf("count the CPUs: %w", err)
	}
	if a.inner, err = a.spareMap(); err != nil {
		return nil, err
	}
	if s.programs.shrunk > 1 { // the limit of locked memory may leave none later
		if a.spare, err = bpf.NewMap(a.spec); err != nil {
			a.close()
			return nil, fmt.Errorf("create a map for aggregation @%s: %w", a.Name, err)
		}
	}
	if err := a.place(); err != nil {
		a.close()
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

// spareMap returns a map for programs to add to next. Two maps alternate, because the kernel needs
// some milliseconds to create one.
func (a *Aggregate) spareMap() (*ebpf.Map, error) {
	if m := a.spare; m != nil {
		a.spare = nil
		return m, nil
	}
	m, err := bpf.NewMap(a.spec)
	if err != nil {
		return nil, fmt.Errorf("create a map for aggregation @%s: %w", a.Name, err)
	}
	return m, nil
}

// replace makes m the map that programs add to. When it returns, no program adds to the previous
// map any more: to update a map of maps, the kernel waits until no program can hold the old one
// (map_update_elem in kernel/bpf/syscall.c).
func (a *Aggregate) replace(m *ebpf.Map) error {
	if err := a.outer.Put(a.index, m); err != nil {
		return fmt.Errorf("replace the map of aggregation @%s: %w", a.Name, err)
	}
	return nil
}

// place installs the first map. It does not wait until replace returns: no program can hold a
// previous map.
func (a *Aggregate) place() error {
	done, first := make(chan error, 1), a.inner
	a.placing = done
	go func() { done <- a.replace(first) }()
	for {
		select {
		case err := <-a.placing:
			a.placing = nil
			return err
		default:
		}
		var id uint32
		if a.outer.Lookup(a.index, &id) == nil {
			return nil
		}
		runtime.Gosched()
	}
}

// placed waits until replace has returned for the first map.
func (a *Aggregate) placed() error {
	if a.placing == nil {
		return nil
	}
	err := <-a.placing
	a.placing = nil
	return err
}

func (a *Aggregate) close() {
	_ = a.placed() // an error no longer matters
	for _, m := range []*ebpf.Map{a.inner, a.spare} {
		if m != nil {
			m.Close() //nolint:errcheck // its rows were read, or are not needed
		}
	}
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
	if a.symbols {
		key = slices.Clone(key)
		a.session.symbols.unify(key, g.Key.Fields)
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

// row returns the value of a key. It creates the row if there is none.
func (a *Aggregate) row(key []byte) []int64 {
	if data := a.rows[string(key)]; data != nil {
		return data
	}
	row := format.AggregationRow{Data: a.fresh()}
	kept := slices.Clone(key)
	if !a.session.script.Program.Options.Bpftrace { // which is printed by EachRow
		for _, f := range a.Of.Key.Fields {
			row.Key = append(row.Key, a.session.Key(kept, f))
		}
	}
	a.Rows = append(a.Rows, row)
	a.rows[string(kept)] = row.Data
	return row.Data
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
