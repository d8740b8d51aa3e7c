package gen

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"culprit/lang/check"
	"culprit/lang/ir"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
)

// A running is a program in the kernel.
type running struct {
	t    testing.TB
	p    *ir.Program
	k    Kernel
	maps map[string]*ebpf.Map
	ring *ringbuf.Reader

	attachTo string // of typed programs
	feature  string // a required feature that may be missing
}

// kernelHere returns the features of the running kernel, by its version: package kernel, which
// probes them, can't be imported here.
func kernelHere() Kernel {
	return Kernel{
		TaskStorage: since(5, 11), RingBuffer: since(5, 8), Loop: since(5, 17),
		AtomicFetch: since(5, 12), LongKeys: since(5, 11),
		NoPrealloc: since(6, 1), Cookies: since(5, 15), CPUs: ebpf.MustPossibleCPU(),
	}
}

// since reports whether the running kernel is at least a version; true if the version can't be
// read.
func since(major, minor int) bool {
	var a, b int
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err == nil {
		_, err = fmt.Sscanf(string(release), "%d.%d", &a, &b)
	}
	return err != nil || a > major || a == major && b >= minor
}

func load(t testing.TB, p *ir.Program, k Kernel, lim Limits) *running {
	t.Helper()
	needRoot(t)
	o, err := Maps(p, k, lim)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, p: p, k: k, maps: map[string]*ebpf.Map{}}
	r.make(o.Maps)
	if m := r.maps[MapRing]; m != nil {
		if r.ring, err = ringbuf.NewReader(m); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.ring.Close() })
	}
	r.state(Active)
	return r
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs: root (BPF)")
	}
	if err := rlimit.RemoveMemlock(); err != nil { // counted before Linux 5.11
		t.Fatal(err)
	}
}

func (r *running) make(specs map[string]*ebpf.MapSpec) {
	r.t.Helper()
	for name, spec := range specs {
		m, err := ebpf.NewMap(spec)
		if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, os.ErrPermission) {
			r.t.Skipf("needs: kernel feature BPF map %s: %v", spec.Type, err)
		}
		if err != nil {
			r.t.Fatalf("map %s: %v", name, err)
		}
		r.t.Cleanup(func() { m.Close() })
		r.maps[name] = m
		if spec.InnerMap != nil {
			inner, err := ebpf.NewMap(spec.InnerMap)
			if err != nil {
				r.t.Fatalf("inner map of %s: %v", name, err)
			}
			defer inner.Close()
			for i := range spec.MaxEntries {
				if i > 0 {
					if inner, err = ebpf.NewMap(spec.InnerMap); err != nil {
						r.t.Fatal(err)
					}
					defer inner.Close()
				}
				if err := m.Put(i, inner); err != nil {
					r.t.Fatal(err)
				}
			}
		}
		if spec.Flags&flagReadOnly != 0 {
			if err := m.Freeze(); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

// program loads the program of some clauses.
func (r *running) program(probes []*check.Probe, clauses ...int) *ebpf.Program {
	r.t.Helper()
	c, err := Assemble(r.p, r.k, probes, clauses)
	if err != nil {
		r.t.Fatal(err)
	}
	r.make(c.Maps)
	ins := append(c.Instructions[:0:0], c.Instructions...)
	for name, m := range r.maps {
		if err := ins.AssociateMap(name, m); err != nil &&
			!strings.Contains(err.Error(), "unreferenced") {
			r.t.Fatal(err)
		}
	}
	prog, err := ebpf.NewProgram(
		&ebpf.ProgramSpec{
			Type:         c.Type,
			AttachType:   c.Attach,
			AttachTo:     cmp.Or(c.AttachTo, r.attachTo),
			Instructions: ins,
			License:      "GPL",
		},
	)
	if r.feature != "" && err != nil &&
		(errors.Is(err, os.ErrPermission) || errors.Is(err, ebpf.ErrNotSupported) ||
			strings.Contains(err.Error(), "cannot use helper")) {
		r.t.Skipf("needs: kernel feature %s: %v", r.feature, err)
	}
	if err != nil {
		var ve *ebpf.VerifierError
		if errors.As(err, &ve) {
			text := fmt.Sprintf("%+v", ve)
			if len(text) > 4000 {
				text = text[:1000] + "\n...\n" + text[len(text)-3000:]
			}
			r.t.Fatalf("%s", text)
		}
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { prog.Close() })
	return prog
}

// run runs a program by hand with arguments.
func (r *running) run(prog *ebpf.Program, args ...uint64) {
	r.t.Helper()
	for len(args) < 10 {
		args = append(args, 0)
	}
	if _, err := prog.Run(&ebpf.RunOptions{Context: args}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) state(s uint64) {
	r.t.Helper()
	if err := r.maps[MapState].Put(uint32(0), [2]uint64{s}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) stateNow() uint64 {
	r.t.Helper()
	var v [2]uint64
	if err := r.maps[MapState].Lookup(uint32(0), &v); err != nil {
		r.t.Fatal(err)
	}
	return v[0]
}

// globals returns the globals, in words.
func (r *running) globals() []uint64 {
	r.t.Helper()
	v := make([]byte, r.maps[MapGlobals].ValueSize())
	if err := r.maps[MapGlobals].Lookup(uint32(0), &v); err != nil {
		r.t.Fatal(err)
	}
	return words(v)
}

func words(b []byte) []uint64 {
	out := make([]uint64, len(b)/8)
	for i := range out {
		out[i] = binary.NativeEndian.Uint64(b[8*i:])
	}
	return out
}

// drops returns the number of losses of a kind.
func (r *running) drops(d ir.Drop) (n uint64) {
	r.t.Helper()
	var each []uint64
	if err := r.maps[MapDrops].Lookup(uint32(d), &each); err != nil {
		r.t.Fatal(err)
	}
	for _, v := range each {
		n += v
	}
	return n
}

// aggregated returns the values of an aggregation by key, summed over CPUs word by word.
func (r *running) aggregated(n int) map[string][]uint64 {
	r.t.Helper()
	var inner *ebpf.Map
	if err := r.maps[AggPlaces(r.p)[n].Map].Lookup(AggPlaces(r.p)[n].Index, &inner); err != nil {
		r.t.Fatal(err)
	}
	defer inner.Close()
	all := map[string][]uint64{}
	var key []byte
	if a := &r.p.Aggs[n]; a.Key.Size > 0 { // | key | u32 bucket | u32 CPU |
		var value []byte
		it := inner.Iterate()
		cut, long := r.k.CutKey(aggKey(a.Key.Size))
		for it.Next(&key, &value) {
			if long {
				key = r.whole(cut, key)
			}
			name := string(key[:a.Key.Size])
			if a.Sparse {
				name = string(key[:a.Key.Size+4]) + "\x00\x00\x00\x00"
			}
			if all[name] == nil {
				all[name] = make([]uint64, inner.ValueSize()/8)
			}
			for i, w := range words(value) {
				all[name][i] += w
			}
		}
		if err := it.Err(); err != nil {
			r.t.Fatal(err)
		}
		return all
	}
	var each [][]byte
	it := inner.Iterate()
	for it.Next(&key, &each) {
		sum := make([]uint64, inner.ValueSize()/8)
		for _, v := range each {
			for i, w := range words(v) {
				sum[i] += w
			}
		}
		all[string(key)] = sum
	}
	if err := it.Err(); err != nil {
		r.t.Fatal(err)
	}
	return all
}

// next reads a record.
func (r *running) next() []byte {
	r.t.Helper()
	r.ring.SetDeadline(past)
	rec, err := r.ring.Read()
	if err != nil {
		r.t.Fatal(err)
	}
	return rec.RawSample
}

func (r *running) none() {
	r.t.Helper()
	r.ring.SetDeadline(past)
	if rec, err := r.ring.Read(); err == nil {
		r.t.Fatalf("a record that should not be: %x", rec.RawSample)
	}
}

// whole returns the whole key of a cut key in a map.
func (r *running) whole(cut KeyCut, key []byte) []byte {
	r.t.Helper()
	out := cut.Restore(key, func(number uint32) []byte {
		var piece []byte
		var got uint32
		for it := r.maps[MapLong].Iterate(); it.Next(&piece, &got); {
			if got == number {
				return append([]byte(nil), piece...)
			}
		}
		return nil
	})
	if out == nil {
		r.t.Fatalf("a piece of the key %x is missing", key)
	}
	return out
}
