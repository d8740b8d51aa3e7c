package ir_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/lang/ir"
	"culprit/lang/ir/irtest"
	"culprit/lang/syntax"

	"github.com/cilium/ebpf/btf"
)

// TestSuite runs the programs of a peer's test suite that need no events - BEGIN, END, ERROR, tick,
// profile - from their text to their output, on the simulated machine. CULPRIT_DTRACE_TESTS is the
// suite's directory; none of it is in this repository.
func TestSuite(t *testing.T) {
	dir := os.Getenv("CULPRIT_DTRACE_TESTS")
	if dir == "" {
		t.Skip("needs: tool dtrace-tests (unpacked, in CULPRIT_DTRACE_TESTS)")
	}
	var files []string
	err := filepath.WalkDir(
		filepath.Join(dir, "test", "unittest"),
		func(path string, e os.DirEntry, err error) error {
			if base := filepath.Base(path); err == nil && strings.HasSuffix(base, ".d") &&
				(strings.HasPrefix(base, "tst.") ||
					strings.HasPrefix(base, "err.") && !strings.HasPrefix(base, "err.D_")) {
				files = append(files, path)
			}
			return err
		},
	)
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	types, err := btf.LoadKernelSpec()
	if err != nil {
		types = nil
	}
	ran, left := 0, map[string][]string{}
	known := map[string]string{
		"aggs/err.aggsize-too-small.d":      "the size of buffers is trace's",
		"assocs/err.dynvarsize-too-small.d": "the same", "buffering/err.zerobuf.d": "the same",
		"options/err.iregs.d":          "options are judged by check",
		"options/err.version-pragma.d": "the same", "speculation/err.NegativeNspec.d": "the same",
		"funcs/alloca/err.alloca-crossing-clauses.d": "memory of alloca lives until the firing ends, as on Solaris",
		"funcs/alloca/tst.alloca-crossing-clauses.d": "the same",
		"funcs/bcopy/err.bcopy-into-string.d":        "that a string of D is written to is refused by check",
		"funcs/err.badalloca2.d":                     "sizes of alloca are judged by check",
		"arithmetic/tst.moddiv.d":                    "the sign of a remainder: here that of C and of Solaris's dtrace, there that of the quotient",
		"codegen/tst.reg_spilling.bug31187562-2.d":   "the column titles stand one to the right there",
		"pointers/err.InvalidAddress5.d":             "numbers that are not aligned can be read here",
		"profile-n/tst.argtest.d":                    "no program was interrupted",
		"bitfields/tst.SizeofBitField.d":             "sizes are check's, and C's",
		"speculation/tst.TwoSpecBuffers.d":           "how many speculations there are is trace's",
		"rates/tst.statusrate.d":                     "time does not pass here",
		"scripting/tst.quiet.d":                      "options in the first line",
		"sizeof/tst.SizeofStrConst.d":                "sizeof of a literal is check's",
		"types/tst.charconstants.d":                  "escapes are syntax's",
		"types/tst.stringconstants.d":                "the same",
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(file, filepath.Join(dir, "test", "unittest")+"/")
		if known[name] != "" {
			continue
		}
		why := trial(t, name, string(text), types)
		if why == "" {
			ran++
		} else {
			why, _, _ = strings.Cut(why, ":")
			left[why] = append(left[why], name)
		}
	}
	t.Logf("%d of %d programs ran", ran, len(files))
	for why, names := range left {
		t.Logf("left out, %s: %d %v", why, len(names), names)
	}
}

// trial runs one program and compares it with the suite's expectation; why is the reason when that
// is not possible.
func trial(t *testing.T, name, text string, types *btf.Spec) (why string) {
	for _, mark := range []string{"@@runtest-opts", "@@xfail", "@@skip", "@@trigger", "#include",
		"#ifdef"} {
		if strings.Contains(text, mark) {
			return mark
		}
	}
	o := check.Options{All: map[string]string{}, Destructive: true}
	tree, wrong := syntax.Parse(text, syntax.Mode{Macros: o.Macro})
	if len(wrong) > 0 {
		return "syntax"
	}
	checked, wrong := check.Check("", text, tree, env{irtest.Env{Types: types}}, o)
	if len(wrong) > 0 {
		if strings.HasPrefix(filepath.Base(name), "err.") {
			return "refused, as it ought to be"
		}
		return "check: " + wrong.Error()
	}
	p, wrong := ir.Lower(checked)
	if len(wrong) > 0 {
		t.Errorf("%s: %v", name, wrong)
		return "lower"
	}
	if err := p.Verify(); err != nil {
		t.Errorf("%s: %v\n%v", name, err, p)
		return "verify"
	}
	defer func() {
		if e := recover(); e != nil {
			if u, ok := e.(unable); ok {
				why = string(u)
				return
			}
			panic(fmt.Sprintf("%s: %v\n%v", name, e, p))
		}
	}()
	if strings.Contains(text, "curthread") || strings.Contains(text, "`") ||
		strings.Contains(text, "psinfo") ||
		strings.Contains(text, "execargs") {
		return "the kernel's memory"
	}
	r := newRuntime(p)
	r.run()
	file := filepath.Join(
		os.Getenv("CULPRIT_DTRACE_TESTS"), "test", "unittest", strings.TrimSuffix(name, ".d"),
	)
	if want := truth(strings.HasPrefix(filepath.Base(name), "err.")); r.status != want {
		t.Errorf(
			"%s: exit %d\n%s\n%s", name, r.status, r.out,
			irtest.FormatRecords(r.m.Program, r.m.Records),
		)
		return ""
	}
	expected, err := os.ReadFile(file + ".r")
	if _, filtered := os.Stat(file + ".r.p"); err != nil || filtered == nil {
		return ""
	}
	want, _, _ := strings.Cut(string(expected), "-- @@stderr --")
	got := regexp.MustCompile("0x[0-9a-f]+").ReplaceAllString(string(r.out), "{ptr}")
	if !alike(got, want) &&
		(strings.Contains(text, "@@nosort") || !alike(inOrder(got), inOrder(want))) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
	return ""
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func alike(a, b string) bool { return strings.TrimRight(a, "\n") == strings.TrimRight(b, "\n") }

// inOrder returns the lines sorted by their bytes: some outputs of the suite were recorded sorted.
func inOrder(s string) string {
	lines := strings.Split(strings.Trim(s, "\n"), "\n")
	slices.Sort(lines)
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

type unable string

// env is irtest's, with the names that a program of the suite may omit.
type env struct{ irtest.Env }

func (e env) Probes(d *syntax.Probe) ([]*check.Probe, error) {
	if d.Parts == 0 || strings.ContainsAny(d.Name.Text+d.Function.Text+d.Provider.Text, "*?[") {
		return nil, fmt.Errorf("no such probe")
	}
	p, err := e.Env.Probes(d)
	if err == nil && p[0].ID > 3 && period(p[0].Name) == 0 {
		return nil, fmt.Errorf("no such probe")
	}
	if err == nil && p[0].ID > 3 {
		p[0].Provider = "profile"
	}
	return p, err
}

// period is the period of a timer in ns; 0: it is no timer.
func period(name string) uint64 {
	m := regexp.MustCompile(`^(?:tick|profile)-([0-9]+)([a-z]*)$`).FindStringSubmatch(name)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseUint(m[1], 10, 64)
	each := map[string]uint64{"ns": 1, "nsec": 1, "us": 1e3, "usec": 1e3, "ms": 1e6, "msec": 1e6,
		"s": 1e9, "sec": 1e9, "m": 60e9, "min": 60e9}[m[2]]
	if each == 0 {
		return 1e9 / max(1, n)
	}
	return n * each
}

// A runtime acts as user space on the results of a program.
type runtime struct {
	p       *ir.Program
	m       *irtest.Machine
	style   format.Style
	out     []byte
	aggs    []*format.Aggregation
	read    int // records processed so far
	status  int64
	quitted bool
}

func newRuntime(p *ir.Program) *runtime {
	r := &runtime{p: p, m: irtest.New(p), style: format.Style{NoColumns: true, Zone: time.UTC}}
	all := p.Source.Options.All
	number := func(name string) int { n, _ := strconv.Atoi(all[name]); return n }
	on := func(name string) bool {
		v, ok := all[name]
		return ok && v != "0" && v != "unset" &&
			v != "disable"
	}
	r.style.Quiet = p.Source.Options.Quiet || on("quiet")
	r.style.SortKey, r.style.SortRev, r.style.RawBytes = on(
		"aggsortkey",
	), on(
		"aggsortrev",
	), on(
		"rawbytes",
	)
	r.style.SortKeyPos, r.style.SortPos = number("aggsortkeypos"), number("aggsortpos")
	for _, o := range []string{"flowindent", "aggpercpu", "aggzoom", "agghist", "aggpack"} {
		if on(o) {
			panic(unable("option " + o))
		}
	}
	for _, a := range p.Aggs {
		if a.Agg == nil {
			panic(unable("gap in the aggregations"))
		}
		f := &format.Aggregation{
			Name:    a.Agg.Name,
			Func:    format.Function(a.Agg.Func),
			Buckets: a.Dist,
		}
		r.aggs = append(r.aggs, f)
	}
	r.m.PID, r.m.TID, r.m.Execname, r.m.Now = 100, 101, "dtrace", 17e17
	r.m.Numbers[check.BuiltinEPID], r.m.Numbers[check.BuiltinPPID] = 1, 1
	return r
}

func (r *runtime) run() {
	byProbe := map[string][]int{}
	probes := map[string]*check.Probe{}
	var order []string
	for i, c := range r.p.Source.Clauses {
		for _, p := range c.Probes {
			name := p.String()
			if probes[name] == nil {
				probes[name] = p
				order = append(order, name)
			}
			byProbe[name] = append(byProbe[name], i)
		}
	}
	fire := func(name string, args ...uint64) {
		if byProbe[name] == nil {
			return
		}
		r.m.Probe = probes[name]
		r.m.Args = [10]uint64{}
		copy(r.m.Args[:], args)
		r.m.Fire(byProbe[name]...)
	}
	settle := func() {
		for r.read < len(r.m.Records) {
			rec := r.m.Records[r.read]
			r.read++
			if fault := r.record(rec); fault != nil && binary.NativeEndian.Uint32(rec[12:]) != 3 {
				// Records of ERROR clauses come before those of clauses after the fault.
				behind := r.m.Records[r.read:]
				r.m.Records = r.m.Records[:r.read:r.read]
				fire(
					"dtrace:::ERROR", 0, uint64(binary.NativeEndian.Uint32(rec[12:])),
					uint64(binary.NativeEndian.Uint32(rec[24:])), 0,
					uint64(binary.NativeEndian.Uint32(rec[28:])),
					binary.NativeEndian.Uint64(rec[40:]),
				)
				r.m.Records = append(r.m.Records, behind...)
			}
		}
	}
	r.out = r.style.Header(r.out)
	fire("dtrace:::BEGIN")
	settle()
	next := map[string]uint64{}
	for n := 0; !r.m.Exited; n++ {
		first := ""
		for _, name := range order {
			if each := period(probes[name].Name); each > 0 {
				if next[name] == 0 {
					next[name] = r.m.Now + each
				}
				if first == "" || next[name] < next[first] {
					first = name
				}
			}
		}
		if first == "" || n > 3000 {
			panic(unable("does not end"))
		}
		r.m.Now = max(r.m.Now, next[first])
		next[first] += period(probes[first].Name)
		fire(first)
		settle()
	}
	if len(r.m.Acts) > 0 {
		panic(unable("acts"))
	}
	fire("dtrace:::END")
	settle()
	r.out = append(r.out, '\n')
	r.drain()
	r.out = r.style.Aggregations(r.out, r.aggs)
}

// record performs the actions of a record; it returns that of a fault.
func (r *runtime) record(b []byte) (fault []byte) {
	n := binary.NativeEndian.Uint32(b[8:])
	if n == ir.FaultRecord {
		return b
	}
	rec := r.p.Records[n]
	p := r.m.Probe
	if r.quitted && p.ID != 2 {
		// a fault's clauses ended the script before the clauses after the fault ran, as in dtrace
		return nil
	}
	r.out = r.style.Probe(r.out, 0, p.ID, p.Function, p.Name)
	for _, a := range rec.Actions {
		r.action(a, b)
	}
	r.out = r.style.EndProbe(r.out)
	return nil
}

func (r *runtime) action(a ir.RecordAction, b []byte) {
	var args []format.Value
	for i, f := range a.Fields {
		if f.Size == 0 {
			switch e := a.Action.Args[i].(type) {
			case *check.Const:
				args = append(args, sized(e.Value, f.Type))
			case *check.Text:
				args = append(args, format.TextOf(e.Value[:min(len(e.Value), r.p.StrMost)],
					r.p.StrMost+1))
			}
			continue
		}
		args = append(args, r.value(f.Type, b[f.Offset:f.Offset+f.Size]))
	}
	var of []*format.Aggregation
	r.drain()
	for _, g := range a.Action.Action.Aggs {
		of = append(of, r.aggs[g.ID])
	}
	var err error
	switch x := a.Action.Action; x.Kind {
	case check.Exit:
		r.status, r.quitted = int64(args[0].Num), true
	case check.Trace:
		r.out = r.style.Trace(r.out, args[0])
	case check.Printf:
		r.out, err = r.style.Printf(r.out, x.Format, args)
	case check.Printa:
		if x.Format == nil {
			r.out = r.style.Table(r.out, of...)
		} else {
			r.out, err = r.style.Printa(r.out, x.Format, of...)
		}
	case check.Clear:
		of[0].Clear()
	case check.Trunc:
		n := int64(0)
		if len(args) > 0 {
			n = int64(args[0].Num)
		}
		of[0].Truncate(n)
	case check.Normalize:
		of[0].Normal = args[0].Num
	case check.Denormalize:
		of[0].Normal = 1
	case check.Tracemem:
		text := args[0].Text
		if len(args) > 1 {
			if n := int64(args[1].Num); n >= 0 {
				text = text[:min(int64(len(text)), n)]
			}
		}
		r.out = r.style.Tracemem(r.out, []byte(text))
	case check.DefaultTrace:
	default:
		panic(unable(fmt.Sprintf("action %d", x.Kind)))
	}
	if err != nil {
		panic(err)
	}
}

func sized(n int64, t check.Type) format.Value {
	if f, ok := t.(*check.Float); ok {
		bits := uint64(n)
		if f.Bytes == 4 {
			bits = math.Float64bits(float64(math.Float32frombits(uint32(n))))
		}
		return format.Value{Kind: format.Floating, Size: int(f.Bytes), Num: bits}
	}
	if i, ok := t.(*check.Int); ok {
		return format.IntOf(n, int(i.Bytes), i.Signed)
	}
	return format.IntOf(n, 8, false)
}

// value reads a value of a record or a key.
func (r *runtime) value(t check.Type, b []byte) format.Value {
	switch t.(type) {
	case check.StringType:
		s, _, _ := strings.Cut(string(b), "\x00")
		return format.TextOf(s, r.p.StrMost+1)
	case *check.Bytes:
		return format.BytesOf(b)
	case check.StackType, check.SymbolType:
		panic(unable("stack or symbol"))
	}
	var n [8]byte
	copy(n[:], b)
	return sized(int64(binary.LittleEndian.Uint64(n[:])), t)
}

// drain takes the machine's aggregations.
func (r *runtime) drain() {
	for i, rows := range r.m.Aggs {
		a := &r.p.Aggs[i]
		r.m.Aggs[i] = nil
		for key, data := range rows {
			at := 0
			if a.Sparse {
				at = int(binary.NativeEndian.Uint32([]byte(key[a.Key.Size:])))
				key = key[:a.Key.Size]
			}
			var k []format.Value
			for _, f := range a.Key.Fields {
				k = append(k, r.value(f.Type, []byte(key[f.Offset:f.Offset+f.Size])))
			}
			row := r.row(r.aggs[i], k, max(1, a.Buckets, a.Value/8))
			word := func(n int) int64 { return int64(binary.NativeEndian.Uint64(data[8*n:])) }
			switch a.Agg.Func {
			case check.Count, check.Sum:
				row[0] += word(0)
			case check.Min:
				if v := word(0); a.Agg.Signed && v < row[0] ||
					!a.Agg.Signed && uint64(v) < uint64(row[0]) {
					row[0] = v
				}
			case check.Max:
				if v := word(0); a.Agg.Signed && v > row[0] ||
					!a.Agg.Signed && uint64(v) > uint64(row[0]) {
					row[0] = v
				}
			case check.Avg:
				row[0] += word(1)
				row[1] += word(0)
			case check.Stddev:
				row[0] += word(0)
				row[1] += word(1)
				low := uint64(row[2]) + uint64(word(2))
				row[3] += word(3) + truth(low < uint64(word(2)))
				row[2] = int64(low)
			default:
				if a.Sparse {
					row[at] += word(0)
				} else {
					for j := range a.Buckets {
						row[j] += word(j)
					}
				}
			}
		}
	}
}

func (r *runtime) row(a *format.Aggregation, key []format.Value, n int) []int64 {
	for _, row := range a.Rows {
		if slices.EqualFunc(
			row.Key, key, func(a, b format.Value) bool { return fmt.Sprint(a) == fmt.Sprint(b) },
		) {
			return row.Data
		}
	}
	data := make([]int64, n)
	switch a.Func {
	case format.Min:
		data[0] = 1<<63 - 1
		data = data[:1]
	case format.Max:
		data[0] = -1 << 63
		data = data[:1]
	case format.Sum:
		data = data[:1]
	}
	a.Rows = append(a.Rows, format.AggregationRow{Key: key, Data: data})
	return data
}
