package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"reflect"
	"runtime"
	"slices"
	"sync"

	"culprit/kernel/bpf"
	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/lang/ir"

	"github.com/cilium/ebpf"
)

// An Aggregate is an aggregation as user space has it: everything that was added until the last
// gathering, less what was cleared and cut away.
type Aggregate struct {
	format.Aggregation
	Of *ir.Agg

	rows  map[string][]int64 // by the bytes of the key: the row's Data
	outer *ebpf.Map          // array of maps
	index uint32             // in it
	inner *ebpf.Map          // the one that programs add to now
	// the one that they will add to next, empty; nil: none was needed yet
	spare   *ebpf.Map
	spec    *ebpf.MapSpec
	cpus    int
	session *Session
	symbols bool       // the key has addresses that are printed by name
	pass    uint64     // of the session, when it was gathered last
	placing chan error // of the first map, which the kernel is still at; nil: it is done
	taps    []*tap
	unkept  bool // no action of the script reads the rows: only taps do
	// of count(): called with what was added for a key, which is valid until it returns; may be nil
	counts  func(key []byte, n int64)
	batches batches
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
			a.symbols = true
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
	if s.shrunk > 1 { // the limit of locked memory may leave none later
		if a.spare, err = bpf.NewMap(a.spec); err != nil {
			a.close()
			return nil, fmt.Errorf("make room for aggregation @%s: %w", a.Name, err)
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

// spareMap returns a map for programs to add to next. Two take turns, because the kernel needs some
// milliseconds to make one.
func (a *Aggregate) spareMap() (*ebpf.Map, error) {
	if m := a.spare; m != nil {
		a.spare = nil
		return m, nil
	}
	m, err := bpf.NewMap(a.spec)
	if err != nil {
		return nil, fmt.Errorf("make room for aggregation @%s: %w", a.Name, err)
	}
	return m, nil
}

// put returns programs a map to add to; once it returns, none of them adds to the map before any
// more: the kernel waits until no program can still hold it, map_update_elem of a map of maps
// (kernel/bpf/syscall.c).
func (a *Aggregate) put(m *ebpf.Map) error {
	if err := a.outer.Put(a.index, m); err != nil {
		return fmt.Errorf("change the map of aggregation @%s: %w", a.Name, err)
	}
	return nil
}

// place returns programs their first map. Nobody has to wait for those that hold the one before it,
// as the kernel does: there was none.
func (a *Aggregate) place() error {
	done, first := make(chan error, 1), a.inner
	a.placing = done
	go func() { done <- a.put(first) }()
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

// placed waits until the kernel is done with the first map.
func (a *Aggregate) placed() error {
	if a.placing == nil {
		return nil
	}
	err := <-a.placing
	a.placing = nil
	return err
}

func (a *Aggregate) close() {
	_ = a.placed() // what it came to matters no more
	for _, m := range []*ebpf.Map{a.inner, a.spare} {
		if m != nil {
			m.Close() //nolint:errcheck // nothing more is wanted of it
		}
	}
}

// collect takes what was added to aggregations since the last time. What programs add meanwhile is
// in the next. While records are told, an aggregation is gathered once: what comes between printa()
// and clear() is in the next too.
func (s *Session) collect(all ...*Aggregate) error {
	if s.over {
		if err := s.rest(); err != nil {
			return err
		}
		for _, a := range all {
			if err := a.take(a.inner); err != nil {
				return err
			}
		}
		return nil
	}
	type change struct {
		a          *Aggregate
		old, fresh *ebpf.Map
		err        error
	}
	var due []*change
	var failed error
	for _, a := range all {
		if s.delivering && a.pass == s.pass ||
			slices.ContainsFunc(due, func(c *change) bool { return c.a == a }) {
			continue
		}
		fresh, err := a.spareMap()
		if err != nil {
			failed = err
			break
		}
		due = append(due, &change{a: a, old: a.inner, fresh: fresh})
	}
	// each waits some milliseconds, for the same thing: until no program runs that began before
	var waiting sync.WaitGroup
	for i, c := range due {
		change := func() { c.err = errors.Join(c.a.placed(), c.a.put(c.fresh)) }
		if i == len(due)-1 {
			change()
			break
		}
		waiting.Go(change)
	}
	waiting.Wait()
	for _, c := range due {
		if c.err == nil {
			c.a.inner, c.a.spare, c.a.pass = c.fresh, c.old, s.pass
			c.err = c.a.take(c.old) // what of it could not be read is in the next
		} else {
			c.a.spare = c.fresh
		}
		failed = errors.Join(failed, c.err)
	}
	return failed
}

// finish notes that no clause runs any more but what is run by hand, and asks the kernel to wait
// for the programs that still run.
func (s *Session) finish() {
	s.over = true
	if len(s.aggs) == 0 {
		return
	}
	done, watched := make(chan error, 1), s.watching
	s.resting = done
	go func() {
		var failed error
		if watched {
			failed = s.aggs[0].put(s.aggs[0].inner) // the same map: the waiting is all
		}
		for _, a := range s.aggs {
			failed = errors.Join(failed, a.placed())
		}
		done <- failed
	}()
}

// rest waits until no program runs but what is run by hand.
func (s *Session) rest() error {
	if s.resting == nil {
		return nil
	}
	err := <-s.resting
	s.resting = nil
	return err
}

// take moves what is in a map at rest.
func (a *Aggregate) take(m *ebpf.Map) error {
	cut, long := a.session.script.kernel.CutKey(a.Of.Key.Size + 8)
	long = long && a.Of.Key.Size > 0
	lost := 0
	err := a.batches.each(m, a.cpus, true, func(key []byte, values [][]byte) {
		if long {
			if key = cut.Restore(key, a.session.keyPiece); key == nil {
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
			"read aggregation @%s: %d of its keys can't be put together", a.Name, lost,
		)
	}
	return nil
}

// batches is buffers to read maps: one for each pair of key and value sizes.
type batches map[batchSize]batch

type batchSize struct{ key, value uint32 }

type batch struct {
	keys, values reflect.Value
	most         int
}

// batchBytes is how much of keys is read at once, near enough.
const batchBytes = 64 << 10

func (b batches) of(m *ebpf.Map, cpus int) batch {
	size := batchSize{m.KeySize(), m.ValueSize()}
	one, ok := b[size]
	if !ok {
		one.most = min(max(batchBytes/int(size.key), 32), 256)
		one.keys = reflect.MakeSlice(
			reflect.SliceOf(reflect.ArrayOf(int(size.key), reflect.TypeFor[byte]())), one.most,
			one.most,
		)
		one.values = reflect.MakeSlice(
			reflect.SliceOf(reflect.ArrayOf(int(size.value), reflect.TypeFor[byte]())),
			one.most*cpus, one.most*cpus,
		)
		b[size] = one
	}
	return one
}

// each returns every key of an aggregation's map with its values: one, or one a CPU where there are
// no keys; and removes them, if wanted. Keys and values are valid until the callee returns, which
// must not use the same buffer.
func (b batches) each(
	m *ebpf.Map, cpus int, remove bool, take func(key []byte, values [][]byte),
) error {
	stride := int(m.ValueSize()+7) &^ 7
	if m.Type() == ebpf.Hash {
		cpus = 1 // the CPU is in the key
	}
	values := make([][]byte, cpus)
	if m.Type() == ebpf.PerCPUArray {
		key := make([]byte, 4)
		zero := reflect.MakeSlice(
			reflect.SliceOf(reflect.ArrayOf(int(m.ValueSize()), reflect.TypeFor[byte]())), cpus,
			cpus,
		)
		for i := range m.MaxEntries() {
			binary.NativeEndian.PutUint32(key, i)
			raw, err := lookup(m, key, stride*cpus)
			if err != nil {
				return err
			}
			split(raw, stride, values)
			take(key, values)
			if remove {
				if err := m.Put(key, zero.Interface()); err != nil {
					return err
				}
			}
		}
		return nil
	}
	batch := m.BatchLookup
	if remove {
		batch = m.BatchLookupAndDelete
	}
	room := b.of(m, cpus)
	keys, vals := room.keys, room.values
	into, and := keys.Interface(), vals.Interface()
	var cursor ebpf.MapBatchCursor
	for {
		n, err := batch(&cursor, into, and, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		for i := range n {
			for c := range cpus {
				values[c] = vals.Index(i*cpus + c).Bytes()
			}
			take(keys.Index(i).Bytes(), values)
		}
		if err != nil {
			return nil
		}
	}
}

// lookup reads the values of all CPUs of one key as they lie in memory.
func lookup(m *ebpf.Map, key []byte, size int) ([]byte, error) {
	per := reflect.New(
		reflect.SliceOf(reflect.ArrayOf(int(m.ValueSize()), reflect.TypeFor[byte]())),
	)
	if err := m.Lookup(key, per.Interface()); err != nil {
		return nil, err
	}
	out := make([]byte, 0, size)
	stride := int(m.ValueSize()+7) &^ 7
	for i := range per.Elem().Len() {
		b := per.Elem().Index(i).Bytes()
		out = append(out, b...)
		out = append(out, make([]byte, stride-len(b))...)
	}
	return out, nil
}

func split(raw []byte, stride int, values [][]byte) {
	for i := range values {
		values[i] = raw[i*stride : (i+1)*stride]
	}
}

// add takes the values that one key has in one gathering.
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
		a.session.same(key, g.Key.Fields)
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
		data = a.row(key) // a key that is there was added to, if only with weights of 0
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

// fresh returns the value of nothing.
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

// row returns the value of a key, made if there was none.
func (a *Aggregate) row(key []byte) []int64 {
	if data := a.rows[string(key)]; data != nil {
		return data
	}
	row := format.AggregationRow{Data: a.fresh()}
	kept := slices.Clone(key)
	for _, f := range a.Of.Key.Fields {
		row.Key = append(row.Key, a.session.Key(kept, f))
	}
	a.Rows = append(a.Rows, row)
	a.rows[string(kept)] = row.Data
	return row.Data
}

// merge adds what one CPU has for a key.
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

// anything reports whether something was ever added to a value.
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

// Truncate keeps the n rows of the greatest values, or with n below 0 the -n of the least.
func (a *Aggregate) Truncate(n int64) {
	a.Aggregation.Truncate(n)
	there := map[*int64]bool{}
	for i := range a.Rows {
		there[&a.Rows[i].Data[0]] = true
	}
	maps.DeleteFunc(a.rows, func(_ string, data []int64) bool { return !there[&data[0]] })
}
