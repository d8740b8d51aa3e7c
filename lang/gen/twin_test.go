package gen

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/lang/ir/irtest"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// TestTwins runs every program of the intermediate form twice: in the kernel, and in irtest's
// machine. The results must be equal, except for times and addresses.
func TestTwins(t *testing.T) {
	text, err := os.ReadFile("testdata/programs.d")
	if err != nil {
		t.Fatal(err)
	}
	old := Kernel{RingBuffer: true, CPUs: ebpf.MustPossibleCPU()}
	here, size := kernelHere(), int64(256)
	// without bpf_loop the verifier follows each iteration: eight routines on strings of 256 bytes
	// have too many jumps
	if !here.Loop {
		size = 32
	}
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "//") {
			continue
		}
		t.Run("", func(t *testing.T) {
			t.Parallel()
			twins(t, line, here, size)
			if i%4 == 0 { // a missing feature is not used
				twins(t, line, old, 32)
			}
			if t.Failed() {
				t.Log(line)
			}
		})
	}
}

// TestTwinsOfLongKeys checks that keys longer than the kernel's limit work in pieces, of any
// number, with and without buckets, and that deletion works.
func TestTwinsOfLongKeys(t *testing.T) {
	const text = `BEGIN {
		@a[strjoin("one", ""), strjoin("two", "")] = count(); @a[strjoin("one", ""), strjoin("three", "")] = count(); @a[strjoin("one", ""), strjoin("two", "")] = count();
		@b[strjoin("x", ""), strjoin("y", ""), strjoin("z", ""), 7] = quantize(5); @b[strjoin("x", ""), strjoin("y", ""), strjoin("z", ""), 8] = quantize(5); @b[strjoin("x", ""), strjoin("y", ""), strjoin("z", ""), 7] = quantize(9);
		t[strjoin("a", ""), strjoin("b", ""), 1] = 5; t[strjoin("a", ""), strjoin("b", ""), 2] = 6; t[strjoin("a", ""), strjoin("c", ""), 1] = 7; t[strjoin("a", ""), strjoin("b", ""), 2] = 0; n = t[strjoin("a", ""), strjoin("b", ""), 1] + t[strjoin("q", ""), strjoin("q", ""), 1];
		u[strjoin("k", ""), strjoin("l", ""), strjoin("m", ""), strjoin("n", "")] = 3; m = u[strjoin("k", ""), strjoin("l", ""), strjoin("m", ""), strjoin("n", "")] + u[strjoin("k", ""), strjoin("l", ""), strjoin("m", ""), strjoin("o", "")];
	}`
	old := Kernel{RingBuffer: true, CPUs: ebpf.MustPossibleCPU()}
	short := kernelHere()
	short.LongKeys = false
	for name, k := range map[string]Kernel{"old": old, "new but for long keys": short,
		"new": kernelHere()} {
		t.Run(name, func(t *testing.T) { twins(t, text, k, 256) })
	}
}

// TestCutKey checks that no key of a hash map exceeds the kernel's limit, and that a cut key is
// restored.
func TestCutKey(t *testing.T) {
	for size := 8; size < 5000; size += 8 {
		cut, long := Kernel{}.CutKey(size)
		if cut.Size > maxKey || long != (size > maxKey) {
			t.Fatalf("a key of %d bytes is cut to %+v", size, cut)
		}
		if !long {
			continue
		}
		key, pieces := make([]byte, size), map[uint32][]byte{}
		for i := range key {
			key[i] = byte(i * 7 / 3)
		}
		number := uint64(0)
		for i := range cut.Pieces {
			pieces[uint32(i+1)] = append(
				binary.NativeEndian.AppendUint64(nil, number),
				key[i*pieceBytes:(i+1)*pieceBytes]...)
			number = uint64(i + 1)
		}
		kept := append(
			binary.NativeEndian.AppendUint64(nil, number),
			key[cut.Pieces*pieceBytes:]...)
		if len(kept) != cut.Size {
			t.Fatalf("a key of %d bytes: %d are kept, want %d", size, len(kept), cut.Size)
		}
		if got := cut.Restore(kept, func(n uint32) []byte { return pieces[n] }); !bytes.Equal(
			got, key,
		) {
			t.Fatalf("a key of %d bytes comes back as %x", size, got)
		}
		if got := cut.Restore(kept, func(uint32) []byte { return nil }); got != nil {
			t.Fatalf("a key without its pieces comes back as %x", got)
		}
	}
}

// TestBuckets checks that every value counts in the bucket that lang/format has for it, and is
// added correctly.
func TestBuckets(t *testing.T) {
	values := []int64{
		0,
		1,
		-1,
		2,
		3,
		5,
		9,
		10,
		11,
		15,
		16,
		19,
		99,
		100,
		101,
		999,
		1000,
		12345,
		1e6,
		1e7 - 1,
		1e7,
		1e12,
		1 << 62,
		1<<62 - 1,
		1<<63 - 1,
		-1 << 63,
		-1<<63 + 1,
		-2,
		-9,
		-10,
		-100,
		-1e6,
		-1e7,
		-1e12,
	}
	for shift := range 63 {
		values = append(values, 1<<shift, 1<<shift-1, -1<<shift, 3<<shift)
	}
	const text = `BEGIN {
		@a = quantize(arg0); @b = lquantize(arg0, -10, 100, 7); @c = lquantize(arg0, 0, 64, 4); @d = lquantize(arg0, 1, 9);
		@e = llquantize(arg0, 10, 0, 6, 20); @f = llquantize(arg0, 2, 0, 60, 2); @g = llquantize(arg0, 10, 3, 9, 100); @h = llquantize(arg0, 3, 2, 20, 3);
		@i[arg1] = quantize(arg0, arg1); @j[arg1, "k"] = lquantize(arg0, -10, 1000, 10, arg1); @k[execname, arg1] = llquantize(arg0, 10, 0, 17, 10);
		@l = stddev(arg0); @m = avg(arg0); @n = min(arg0); @o = max(arg0); @p = sum(arg0); @q = count();
		@r[arg1] = stddev(arg0); @s[arg1] = min(arg0); @t[arg1] = max(arg0); @u = min((unsigned long)arg0); @v = max((unsigned long)arg0);
	}`
	p, err := irtest.Compile(text, check.Options{StrSize: 64})
	if err != nil {
		t.Fatal(err)
	}
	probe := &check.Probe{ID: 1, Provider: "dtrace", Name: "BEGIN", Site: check.SiteRun}
	r := load(t, p, kernelHere(), Limits{AggKeys: 1024})
	r.state(Inactive)
	prog := r.program([]*check.Probe{probe}, 0)
	m := irtest.New(p)
	m.Probe = probe
	locked(func() {
		m.Execname = comm(t)
		for i, v := range values {
			m.Args[0], m.Args[1] = uint64(v), uint64(i%3)
			m.Fire(0)
			r.run(prog, m.Args[:2]...)
		}
	})
	r.compare(m)
}

// twins runs all clauses of a text as one firing of BEGIN, with arguments.
func twins(t testing.TB, text string, k Kernel, strsize int64, args ...uint64) {
	p, err := irtest.Compile(text, check.Options{StrSize: strsize})
	if err != nil {
		t.Fatal(err)
	}
	probe := &check.Probe{ID: 1, Provider: "dtrace", Name: "BEGIN", Site: check.SiteRun}
	var all []int
	for i := range p.Clauses {
		all = append(all, i)
	}
	r := load(t, p, k, Limits{Ring: 1 << 16, Dynamic: 64, AggKeys: 64, Stacks: 64})
	r.state(Inactive)
	prog := r.program([]*check.Probe{probe}, all...)
	m := irtest.New(p)
	m.Probe = probe
	copy(m.Args[:], args)
	locked(func() {
		m.PID, m.TID, m.Execname = uint32(os.Getpid()), uint32(unix.Gettid()), comm(t)
		m.Numbers = map[check.BuiltinVar]uint64{
			check.BuiltinUID: uint64(os.Getuid()),
			check.BuiltinGID: uint64(os.Getgid()),
		}
		m.Fire(all...)
		r.run(prog, args...)
	})
	r.compare(m)
	if t.Failed() {
		t.Log(p)
	}
}

func comm(t testing.TB) string {
	b, err := os.ReadFile("/proc/thread-self/comm")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(b), "\n")
}

// compare compares the results of the kernel's program with the machine's.
func (r *running) compare(m *irtest.Machine) {
	t := r.t
	t.Helper()
	for i, want := range m.Records {
		if r.ring == nil {
			t.Errorf("no ring for %d records", len(m.Records))
			return
		}
		r.ring.SetDeadline(past)
		rec, err := r.ring.Read()
		if err != nil {
			t.Errorf("record %d of %d: %v", i, len(m.Records), err)
			return
		}
		got := rec.RawSample
		if d := r.recordsDiffer(got, want); d != "" {
			t.Errorf("record %d: %s\ngot  %x\nwant %x", i, d, got, want)
		}
	}
	if r.ring != nil {
		r.none()
	}
	if g := r.maps[MapGlobals]; g != nil {
		got := make([]byte, g.ValueSize())
		if err := g.Lookup(uint32(0), &got); err != nil {
			t.Fatal(err)
		}
		if got := got[:len(m.Globals)]; !wordsAlike(got, m.Globals) {
			t.Errorf("globals\ngot  %x\nwant %x", got, m.Globals)
		}
	}
	for i := range r.p.Tables {
		got := map[string][]byte{}
		var k, v []byte
		cut, long := r.k.CutKey(tableKey(r.p, i))
		for it := r.maps[fmt.Sprint(MapTable, i)].Iterate(); it.Next(&k, &v); {
			if long {
				k = r.whole(cut, k)
			}
			got[string(k)] = bytes.Clone(v)
		}
		if len(got) != len(m.Tables[i]) {
			t.Errorf("table %d has %d elements, want %d", i, len(got), len(m.Tables[i]))
		}
		for k, v := range m.Tables[i] {
			if !wordsAlike(got[k][:min(len(v.Data), len(got[k]))], v.Data) {
				t.Errorf("table %d, key %x\ngot  %x\nwant %x", i, k, got[k], v.Data)
			}
		}
	}
	for i := range r.p.Aggs {
		got := r.aggregated(i)
		if r.p.Aggs[i].Key.Size == 0 { // its one element always exists
			if len(m.Aggs[i]) == 0 {
				m.Aggs[i] = map[string][]byte{"": make([]byte, r.p.Aggs[i].Value)}
			}
			got = map[string][]uint64{"": got["\x00\x00\x00\x00"]}
		}
		if len(got) != len(m.Aggs[i]) {
			t.Errorf("aggregation %d has %d keys, want %d", i, len(got), len(m.Aggs[i]))
		}
		for k, v := range m.Aggs[i] {
			if !slices.Equal(got[k], words(v)) {
				t.Errorf("aggregation %d, key %x\ngot  %x\nwant %x", i, k, got[k], words(v))
			}
		}
	}
	for d := range ir.DropCount {
		if got := r.drops(d); got != m.Drops[d] {
			t.Errorf("drop %d: %d, want %d", d, got, m.Drops[d])
		}
	}
	if got := r.stateNow() == Draining; got != m.Exited {
		t.Errorf("exited: %v, want %v", got, m.Exited)
	}
}

// recordsDiffer returns how two records differ, ignoring times, CPUs and addresses.
func (r *running) recordsDiffer(got, want []byte) string {
	if len(got) != (len(want)+7)&^7 && len(got) != len(want) {
		return fmt.Sprintf("%d bytes, want %d", len(got), len(want))
	}
	for _, f := range []struct {
		name     string
		from, to int
	}{{"number", 8, 12}, {"probe", 12, 16}, {"thread", 20, 24}} {
		if !bytes.Equal(got[f.from:f.to], want[f.from:f.to]) {
			return f.name
		}
	}
	n := binary.NativeEndian.Uint32(want[8:])
	if n == ir.FaultRecord {
		if !bytes.Equal(got[24:40], want[24:40]) {
			return "fault"
		}
		if !wordsAlike(got[40:48], want[40:48]) {
			return "address of the fault"
		}
		return ""
	}
	for i, a := range r.p.Records[n].Actions {
		for j, f := range a.Fields {
			if f.Size > 0 &&
				!wordsAlike(got[f.Offset:f.Offset+f.Size], want[f.Offset:f.Offset+f.Size]) {
				return fmt.Sprintf("field %d of action %d at %d", j, i, f.Offset)
			}
		}
	}
	return ""
}

// wordsAlike compares memory, ignoring words that are addresses of the machine's memory or times.
func wordsAlike(got, want []byte) bool {
	if len(got) != len(want) {
		return false
	}
	if len(got)%8 != 0 {
		return bytes.Equal(got, want)
	}
	for i := 0; i < len(want); i += 8 {
		w := binary.NativeEndian.Uint64(want[i:])
		if w>>44 == 0xffffc || w>>44 == 0xffffb {
			continue
		}
		if g := binary.NativeEndian.Uint64(got[i:]); g != w {
			return false
		}
	}
	return true
}
