package trace

import (
	"encoding/binary"
	"errors"
	"reflect"

	"github.com/cilium/ebpf"
)

// batches are buffers to read maps: one for each pair of key and value sizes.
type batches map[batchSize]batch

type batchSize struct{ key, value uint32 }

// A batch is two slices of arrays, which the kernel fills.
type batch struct {
	keys, values reflect.Value
	most         int // keys that fit
}

// batchBytes is about how many bytes of keys are read at once.
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

// each calls take with every key of an aggregation's map and its values: one value, or one per CPU
// in a map per CPU. With remove it removes them. Keys and values are valid until take returns. take
// must not read another map of the same sizes with b.
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
	buffer := b.of(m, cpus)
	keys, vals := buffer.keys, buffer.values
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

// lookup returns the values of all CPUs of one key, each padded to 8 bytes.
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
