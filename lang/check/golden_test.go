package check_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/heapbound"
	"culprit/lang/check"
	"culprit/lang/syntax"

	"github.com/cilium/ebpf/btf"
)

var update = flag.Bool("update", false, "write the golden files anew")

func files(t testing.TB, pattern string) map[string]string {
	list, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(list) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(list), err)
	}
	out := map[string]string{}
	for _, name := range list {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(data)
	}
	return out
}

// golden compares text with a file beside its source.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; with -update it becomes:\n%s", name, got)
	}
}

// smallSpec is a kernel of a few types, made by hand, with every kind of layout.
func smallSpec(t testing.TB) *btf.Spec {
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	u8 := &btf.Typedef{Name: "u8", Type: &btf.Int{Name: "unsigned char", Size: 1}}
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	uinteger := &btf.Int{Name: "unsigned int", Size: 4}
	long := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	state := &btf.Enum{
		Name:   "state",
		Size:   4,
		Values: []btf.EnumValue{{Name: "RUNNING", Value: 0}, {Name: "SLEEPING", Value: 2}},
	}
	file := &btf.Struct{Name: "file", Size: 32}
	mm := &btf.Struct{
		Name: "mm_struct",
		Size: 16,
		Members: []btf.Member{
			{
				Name: "arg_start",
				Type: &btf.Typedef{
					Name: "ulong_t",
					Type: &btf.Int{Name: "unsigned long", Size: 8},
				},
				Offset: 0,
			},
			{Name: "arg_end", Type: long, Offset: 64},
		},
	}
	task := &btf.Struct{Name: "task_struct", Size: 256}
	file.Members = []btf.Member{
		{Name: "f_flags", Type: uinteger, Offset: 0},
		{Name: "f_owner", Type: &btf.Pointer{Target: task}, Offset: 64},
		{Name: "f_data", Type: &btf.Pointer{Target: &btf.Void{}}, Offset: 128},
		{Name: "f_bits", Type: uinteger, Offset: 192, BitfieldSize: 3},
		{Name: "f_more", Type: integer, Offset: 195, BitfieldSize: 5},
		// crosses its integer: packed
		{Name: "f_split", Type: uinteger, Offset: 215, BitfieldSize: 17},
	}
	union := &btf.Union{
		Size:    8,
		Members: []btf.Member{{Name: "u_long", Type: long}, {Name: "u_byte", Type: u8}},
	}
	inner := &btf.Struct{
		Size: 8,
		Members: []btf.Member{
			{Name: "low", Type: integer, Offset: 0},
			{Name: "high", Type: integer, Offset: 32},
		},
	}
	task.Members = []btf.Member{
		{Name: "pid", Type: &btf.Typedef{Name: "pid_t", Type: integer}, Offset: 0},
		{Name: "tgid", Type: integer, Offset: 32},
		{Name: "comm", Type: &btf.Array{Index: uinteger, Type: char, Nelems: 16}, Offset: 64},
		{Name: "parent", Type: &btf.Pointer{Target: task}, Offset: 192},
		{Name: "mm", Type: &btf.Pointer{Target: mm}, Offset: 256},
		{Name: "files", Type: &btf.Pointer{Target: &btf.Pointer{Target: file}}, Offset: 320},
		{
			Name:   "buffer",
			Type:   &btf.Pointer{Target: &btf.TypeTag{Value: "user", Type: char}},
			Offset: 384,
		},
		{Name: "", Type: union, Offset: 448},
		{Name: "", Type: &btf.Const{Type: inner}, Offset: 512},
		{Name: "state", Type: &btf.Volatile{Type: state}, Offset: 576},
		{
			Name: "table",
			Type: &btf.Array{
				Index:  uinteger,
				Type:   &btf.Array{Index: uinteger, Type: integer, Nelems: 4},
				Nelems: 3,
			},
			Offset: 640,
		},
		{
			Name: "hook",
			Type: &btf.Pointer{
				Target: &btf.FuncProto{
					Return: integer,
					Params: []btf.FuncParam{{Name: "x", Type: long}},
				},
			},
			Offset: 1024,
		},
		{
			Name:   "far",
			Type:   &btf.Pointer{Target: &btf.Fwd{Name: "elsewhere", Kind: btf.FwdStruct}},
			Offset: 1088,
		},
		{Name: "name", Type: &btf.Pointer{Target: &btf.Const{Type: char}}, Offset: 1152},
	}
	wakeup := &btf.Func{
		Name: "wake",
		Type: &btf.FuncProto{
			Return: integer,
			Params: []btf.FuncParam{
				{Name: "who", Type: &btf.Pointer{Target: task}},
				{Name: "flags", Type: u8},
			},
		},
	}
	b, err := btf.NewBuilder(
		[]btf.Type{task, file, &btf.Typedef{Name: "task_t", Type: task}, wakeup}, nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := btf.LoadSpecFromReader(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func smallEnv(t testing.TB) *env { return &env{spec: smallSpec(t)} }

// options returns the options in the first line of a program of testdata: // with -w -x strsize=8
// arg.
func optionsOf(text string) check.Options {
	o := check.Options{
		All:    map[string]string{},
		Args:   []string{"a.d"},
		Target: 77,
		Words:  map[string]string{"pid": "42"},
	}
	first, _, _ := strings.Cut(text, "\n")
	line, ok := strings.CutPrefix(first, "// with ")
	if !ok {
		return o
	}
	for _, w := range strings.Fields(line) {
		name, value, _ := strings.Cut(w, "=")
		switch {
		case w == "-w":
			o.Destructive = true
		case w == "-Z":
			o.Probes = true
		case strings.HasPrefix(w, "-x"):
			o.All[strings.TrimPrefix(name, "-x")] = value
		default:
			o.Args = append(o.Args, w)
		}
	}
	return o
}

func TestOK(t *testing.T) {
	for name, text := range files(t, "ok/*.d") {
		e := smallEnv(t)
		prog, ds := syntax.Parse(text, syntax.Mode{File: filepath.Base(name)})
		if ds != nil {
			t.Errorf("%s", ds.Marked())
			continue
		}
		p, ds := check.Check(filepath.Base(name), text, prog, e, optionsOf(text))
		if ds != nil {
			t.Errorf("%s", ds.Marked())
			continue
		}
		out := check.Dump(p)
		for _, w := range p.Warnings {
			out += "warning: " + w.Error() + "\n"
		}
		golden(t, strings.TrimSuffix(name, ".d")+".golden", out)
		if strings.HasPrefix(text, "// no types") && e.read {
			t.Errorf("%s: the kernel's types were read", name)
		}
	}
}

// TestErr reads testdata/err/CODE.what.d, where CODE is that of the first mistake. The golden file
// shows all of them as printed to users, each with dtrace's tag. Mistakes are between « and »;
// several mistakes are several pairs.
func TestErr(t *testing.T) {
	seen := map[string]bool{}
	for name, marked := range files(t, "err/*.d") {
		var text strings.Builder
		var want [][2]int
		for i, part := range strings.Split(marked, "«") {
			if i > 0 {
				inside, after, ok := strings.Cut(part, "»")
				if !ok {
					t.Fatalf("%s: a « without »", name)
				}
				want = append(want, [2]int{text.Len(), text.Len() + len(inside)})
				part = inside + after
			}
			text.WriteString(part)
		}
		base := filepath.Base(name)
		code, _, _ := strings.Cut(base, ".")
		seen[code] = true
		prog, ds := syntax.Parse(text.String(), syntax.Mode{File: base})
		if ds != nil {
			t.Errorf("%s", ds.Marked())
			continue
		}
		p, ds := check.Check(base, text.String(), prog, smallEnv(t), optionsOf(text.String()))
		if p != nil || len(ds) == 0 {
			t.Errorf("%s: passes", name)
			continue
		}
		if string(ds[0].Code) != code {
			t.Errorf("%s: got %s", name, ds[0].Code)
		}
		var got [][2]int
		out := ""
		for _, d := range ds {
			got = append(got, [2]int{d.Pos, d.Pos + d.Len})
			out += "[" + d.Tag + "] " + d.Marked() + "\n\n"
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: reported at %v, marked at %v\n%s", name, got, want, ds.Marked())
		}
		golden(t, strings.TrimSuffix(name, ".d")+".golden", strings.TrimSuffix(out, "\n"))
	}
	for code, example := range codes(t) {
		if !seen[code] && code != string(check.NoTypes) && !strings.HasPrefix(example, "none") {
			t.Errorf("testdata/err has no file for %s", code)
		}
	}
}

// codes returns the constants of type Code with the Example of each.
func codes(t testing.TB) map[string]string {
	f, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		code := strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`)
		if _, twice := out[code]; twice {
			t.Errorf("two codes are %s", code)
		}
		_, example, _ := strings.Cut(v.Doc.Text(), "Example: ")
		out[code] = strings.TrimSuffix(example, "\n")
		return true
	})
	return out
}

func TestExamplesOfCodes(t *testing.T) {
	all := codes(t)
	if len(all) < 60 {
		t.Fatalf("found %d codes", len(all))
	}
	for code, example := range all {
		if strings.HasPrefix(example, "none") {
			continue
		}
		text := strings.ReplaceAll(example, `\n`, "\n")
		e := smallEnv(t)
		if code == string(check.NoTypes) {
			e = &env{err: os.ErrNotExist}
		}
		p, ds := compile(text, check.Options{}, e)
		if p != nil {
			t.Errorf("%s: its example passes: %s", code, example)
			continue
		}
		if len(ds) != 1 || string(ds[0].Code) != code {
			t.Errorf("%s: its example has another result: %s", code, example)
			for _, d := range ds {
				t.Errorf("  %s\n%s", d.Code, d.Marked())
			}
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, text := range files(f, "ok/*.d") {
		f.Add(text)
	}
	for _, text := range files(f, "err/*.d") {
		f.Add(strings.NewReplacer("«", "", "»", "").Replace(text))
	}
	for _, example := range codes(f) {
		f.Add(strings.ReplaceAll(example, `\n`, "\n"))
	}
	spec := smallSpec(f)
	heapbound.Fuzz(f, func(t *testing.T, text string) {
		prog, ds := syntax.Parse(text, syntax.Mode{})
		if ds != nil {
			return
		}
		start := time.Now()
		p, ds := check.Check("", text, prog, &env{spec: spec}, optionsOf(text))
		if took := time.Since(start); took > 10*time.Second {
			t.Fatalf("took %v", took)
		}
		if (p == nil) == (len(ds) == 0) {
			t.Fatalf("program %v and diagnostics %v", p != nil, ds)
		}
		for i, d := range ds {
			if d.Pos < 0 || d.Len < 0 || d.Pos+d.Len > len(text) || d.Line < 1 || d.Column < 1 ||
				d.Code == "" ||
				d.Message == "" {
				t.Fatalf("%+v", d)
			}
			if d.Code != syntax.TooMany && i > 0 && ds[i-1].Pos > d.Pos {
				t.Fatalf("out of order: %v", ds)
			}
			_ = d.Marked()
		}
		if p != nil {
			_ = check.Dump(p)
			checkTree(t, p)
		}
	})
}
