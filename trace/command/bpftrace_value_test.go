package command

import (
	"os"
	"strings"
	"testing"

	"culprit/lang/bpftrace"
	"culprit/trace/tracetest"
)

// TestBpftraceStructsAndArrays checks that structs and arrays of a program's memory are whole
// values: in variables, maps, keys and tuples.
func TestBpftraceStructsAndArrays(t *testing.T) {
	work := tracetest.CompileC(t, `
		struct in { short s; char name[4]; };
		struct all { int a[3]; struct in in[2]; unsigned b : 3, c : 5; long last; };
		struct all all = {{1, -2, 3}, {{4, "xy"}, {5, "z"}}, 6, 17, -8};
		__attribute__((noinline)) long visit(struct all *p) { __asm__ volatile(""); return p->a[0]; }
		int main(void) { return visit(&all) != 1; }`)
	const types = `struct in { short s; char name[4] }
		struct all { int a[3]; struct in in[2]; unsigned b : 3, c : 5; long last }
		`
	const whole = "{ .a = [1,-2,3], .in = [{ .s = 4, .name = xy },{ .s = 5, .name = z }], " +
		".b = 6, .c = 17, .last = -8 }"
	for _, tt := range []struct{ name, body, want string }{
		{"a struct", "$x = *$p; print($x);", whole + "\n\n\n"},
		{"a struct in a map", "@x = *$p;", "\n\n@x: " + whole + "\n"},
		{"an array", "$x = $p->a; print($x); print($x[1]);", "[1,-2,3]\n-2\n\n\n"},
		{"an array in a map and a key", "@x = $p->a; @y[$p->a, 7] = count(); @z[@x] = 1;",
			"\n\n@x: [1,-2,3]\n@y[[1,-2,3], 7]: 1\n@z[[1,-2,3]]: 1\n"},
		{"a struct in a key", "@x[$p->in[0]] = 1; @y[$p->in[1], 2] = sum(3);",
			"\n\n@x[{.s=4,.name=xy}]: 1\n@y[{.s=5,.name=z}, 2]: 3\n"},
		{"in tuples", "$t = (1, $p->a, $p->in[1]); print($t); @t = $t;",
			"(1, [1,-2,3], { .s = 5, .name = z })\n\n\n@t: (1, [1,-2,3], { .s = 5, .name = z })\n"},
		{"buffers", `@x[buf($p->a, 4)] = count(); @y = buf($p->a, 4); printf("%rh\n", @y);`,
			"01 00 00 00\n\n\n@x[\\x01\\x00\\x00\\x00]: 1\n@y: \\x01\\x00\\x00\\x00\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, messages, err := runBpftrace(t, BpftraceRequest{
				Program: types + "uprobe:" + work + ":visit { $p = (struct all *)arg0; " +
					tt.body + " }",
				Command: work, Quiet: true,
			})
			if err != nil || messages != "" || out != tt.want {
				t.Errorf("%q, %q, %v, want %q", out, messages, err, tt.want)
			}
		})
	}
}

func TestBpftraceNewerForms(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs: root (BPF)")
	}
	for _, tt := range []struct {
		name, text string
		args       []string
		want       string
	}{
		{"buffers in hexadecimal",
			`BEGIN { printf("%r %rx %rh\n", buf("a\x01", 2), buf("a\x01", 2), buf("a\x01", 2)); }`, nil,
			"a\\x01 \\x61\\x01 61 01\n\n\n"},
		{"a buffer that is longer than its string", `BEGIN { @x[buf("ab", 4)] = 1; @y = buf("c", 2); }`,
			nil, "\n\n@x[ab\\x00\\x00]: 1\n@y: c\\x00\n"},
		{"a choice of statements",
			`BEGIN { $# == 1 ? printf("one\n") : $# == 2 ? printf("two\n") : printf("more\n"); }`,
			[]string{"a", "b"}, "two\n\n\n"},
		{"addresses", `BEGIN { printf("%s %s %x\n", ntop(pton("127.0.0.1")), ntop(pton("::1")),
			pton("1.2.3.4")); }`, nil, "127.0.0.1 ::1 4030201\n\n\n"},
		{"deleted elements of aggregations",
			`BEGIN { @c = count(); @s = sum(1); @a["x", 1] = count(); @a["y", 1] = count();
			@h[1] = hist(4); @h[2] = hist(5); @m[-1] = min(3); @m[1] = min(7); $k = "x";
			delete(@c); delete(@s); delete(@a[$k, 1]); delete(@h, 1); delete(@m[1], @h[3]); }`, nil,
			"\n\n@a[y, 1]: 1\n@c: 0\n@h[2]: \n[4, 8)                 1 |" +
				"@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n\n@m[-1]: 3\n\n"},
		{"atomic time", `BEGIN { printf("%d\n", nsecs(sw_tai) - nsecs > 1600000000000000000); }`, nil,
			"1\n\n\n"},
		{"a number as a string", `BEGIN { printf("-%s- %d\n", str($1), $1 + 1); @x[str($2)] = 1; }`,
			[]string{"12"}, "-12- 13\n\n\n@x[]: 1\n"},
		{"a probe as an argument", `$1 { printf("%s\n", probe); }`, []string{"interval:ms:20"},
			"interval:ms:20\n\n\n"},
		{"maps that are not printed", `config = { print_maps_on_exit = false } BEGIN { @x = 1; }`, nil,
			"\n\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.TrimSuffix(tt.text, "}") + " exit(); }"
			out, messages, err := runBpftrace(t, BpftraceRequest{
				Program: text, Args: tt.args, Quiet: true,
			})
			if err != nil || messages != "" || out != tt.want {
				t.Errorf("%q, %q, %v, want %q", out, messages, err, tt.want)
			}
		})
	}
}

func TestBpftraceSettings(t *testing.T) {
	for _, tt := range []struct{ name, text, environment, want string }{
		{"none", "BEGIN {}", "", ""},
		{"of the program", "config = { stack_mode = raw } BEGIN {}", "", "raw"},
		{"with bpftrace's prefix", "config = { BPFTRACE_STACK_MODE=raw; } BEGIN {}", "", "raw"},
		{"the environment comes first", "config = { stack_mode = raw } BEGIN {}", "perf", "perf"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("BPFTRACE_STACK_MODE", tt.environment)
			tree, ds := bpftrace.Parse("", tt.text, nil)
			if len(ds) > 0 {
				t.Fatal(ds)
			}
			set, err := withEnvironment(tree.Config)
			if err != nil || set["stack_mode"] != tt.want {
				t.Errorf("%q, %v, want %q", set["stack_mode"], err, tt.want)
			}
		})
	}
	t.Run("a mode that does not exist", func(t *testing.T) {
		if _, err := withEnvironment(bpftrace.Settings{"stack_mode": "wide"}); err == nil {
			t.Error("no error")
		}
	})
}
