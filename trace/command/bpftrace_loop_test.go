package command

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"culprit/lang/bpftrace"
	"culprit/lang/format"
)

func TestBpftraceLoopsOverMaps(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs: root (BPF)")
	}
	const three = `BEGIN { @x[3] = 30; @x[-1] = 10; @x[2] = 20; exit(); } `
	for _, tt := range []struct{ name, text, out string }{
		{"numbers", three + `END { for ($kv : @x) { printf("%d=%d ", $kv.0, $kv.1); } clear(@x); }`,
			"-1=10 2=20 3=30 "},
		{"several keys", `BEGIN { @x["b", 2] = 7; @x["a", 1] = 5; @x["a", 3] = 9; exit(); }
			END { for $kv : @x { printf("%s %d %d\n", $kv.0.0, $kv.0.1, $kv.1); } clear(@x); }`,
			"a 1 5\na 3 9\nb 2 7\n"},
		{"a tuple as value", `BEGIN { @x["a"] = (1, "one"); @x["b"] = (2, "two"); exit(); }
			END { for ($kv : @x) { printf("%s %d %s\n", $kv.0, $kv.1.0, $kv.1.1); } clear(@x); }`,
			"a 1 one\nb 2 two\n"},
		{"variables of the clause", three + `END { $n = 5; $last = "";
			for ($kv : @x) { $n += $kv.1; if ($kv.0 == 2) { $last = "two"; } }
			printf("%d %s", $n, $last); clear(@x); }`, "65 two"},
		{"break", three + `END { for ($kv : @x) { if ($kv.0 == 2) { break; } printf("%d ", $kv.0); }
			printf("end"); clear(@x); }`, "-1 end"},
		{"continue", three + `END { for ($kv : @x) { if ($kv.0 == 2) { continue; }
			printf("%d ", $kv.0); } printf("end"); clear(@x); }`, "-1 3 end"},
		{"return", three + `END { clear(@x); for ($kv : @x) { if ($kv.0 == 2) { return; }
			printf("%d ", $kv.0); } printf("never"); }`, "-1 "},
		{"a return before", three + `END { clear(@x); if (@x[3]) { return; }
			for ($kv : @x) { printf("never"); } }`, ""},
		{"a predicate that is false", three + `END / @x[3] == 31 / {
			for ($kv : @x) { printf("never"); } } END { clear(@x); }`, ""},
		{"in a branch", three + `END { clear(@x); if (@x[3] == 30) { printf("a ");
			for ($kv : @x) { printf("%d ", $kv.1); } printf("b "); } else { printf("never");
			for ($kv : @x) { printf("never"); } } printf("c"); }`, "a 10 20 30 b c"},
		{"in the other branch", three + `END { clear(@x); if (@x[3] == 31) {
			for ($kv : @x) { printf("never"); } } else {
			for ($kv : @x) { printf("%d ", $kv.1); } } }`,
			"10 20 30 "},
		{"a loop in a loop", `BEGIN { @x[1] = 1; @x[2] = 2; @y["a"] = 3; @y["b"] = 4; exit(); }
			END { for ($i : @x) { printf("%d:", $i.0); for ($j : @y) { if ($i.0 == 2) { break; }
			printf("%s", $j.0); } printf(";"); } clear(@x); clear(@y); }`, "1:ab;2:;"},
		{"a return from a loop in a loop",
			`BEGIN { @x[1] = 1; @x[2] = 2; @y["a"] = 3; @y["b"] = 4; exit(); }
			END { clear(@x); clear(@y); for ($i : @x) { printf("%d:", $i.0); for ($j : @y) {
			printf("%s", $j.0); if ($j.1 == 4) { return; } } printf(";"); } printf("never"); }`,
			"1:ab"},
		{"elements deleted meanwhile", three + `END { for ($kv : @x) { delete(@x[2]);
			printf("%d ", $kv.0); } clear(@x); }`, "-1 3 "},
		{"its own element deleted", three + `END { for ($kv : @x) { delete(@x, $kv.0); }
			printf("%d", len(@x)); }`, "0"},
		{"a map filled by a loop", three + `END { for ($kv : @x) { @y[$kv.1] = $kv.0; }
			for ($kv : @y) { printf("%d=%d ", $kv.0, $kv.1); } clear(@x); clear(@y); }`,
			"10=-1 20=2 30=3 "},
		{"lengths", three + `END { printf("%d ", len(@x)); @x[4] = 1; if (len(@x) > 3) {
			printf("%d", len(@x)); } clear(@x); }`, "3 4"},
		{"aggregations", `BEGIN { @c[1] = count(); @c[2] = count(); @c[2] = count();
			@a["k"] = avg(4); @a["k"] = avg(9); @m["m"] = max(-3); exit(); }
			END { for ($kv : @c) { printf("%d=%d ", $kv.0, $kv.1); }
			for ($kv : @a) { printf("%s=%d ", $kv.0, $kv.1); }
			for ($kv : @m) { printf("%s=%d %d", $kv.0, $kv.1, len(@c)); }
			clear(@c); clear(@a); clear(@m); }`, "1=1 2=2 k=6 m=-3 2"},
		{"values of aggregations", `BEGIN { @c = count(); @c = count(); @s["a", 2] = sum(5);
			@s["a", 2] = sum(6); @a[1] = avg(3); @a[1] = avg(8); @m = min(-7);
			printf("%d ", @c); @c = count(); if (@c == 3) { printf("%d ", @s["a", 2]); } exit(); }
			END { $k = "a"; printf("%d %d %d %d", @s[$k, 1 + 1] + 1, @s["b", 2], @a[1], @m);
			clear(@c); clear(@s); clear(@a); clear(@m); }`, "2 11 12 0 5 -7\n\n\n@c: 0"},
		{"names of numbers", `BEGIN { @x[0] = strerror(2); printf("%s,%s,%s,%s", strerror(13),
			strerror(0), strerror(9999), syscall_name(999999)); exit(); }
			END { for ($kv : @x) { printf(";%s", $kv.1); } clear(@x); }`,
			"Permission denied,Success,Unknown error 9999,999999;No such file or directory"},
		{"variables begin as 0 each time", `BEGIN { @x["a"] = 1; } interval:ms:2 {
			if (@x["a"] == 2) { $y = 5; } printf("%d ", $y); for ($kv : @x) {
			@x[$kv.0] = $kv.1 + 1; } if (@x["a"] == 5) { clear(@x); exit(); } }`, "0 5 0 0 "},
		{"in each interval", `BEGIN { @x["a"] = 1; } interval:ms:2 { for ($kv : @x) {
			@x[$kv.0] = $kv.1 + 1; }
			if (@x["a"] == 4) { printf("%d", @x["a"]); clear(@x); exit(); } }`,
			"4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, messages, err := runBpftrace(t, BpftraceRequest{Program: tt.text, Quiet: true})
			if err != nil || messages != "" {
				t.Fatalf("%v %s", err, messages)
			}
			// An empty line for each empty map follows.
			if got := strings.TrimRight(out, "\n"); got != strings.TrimRight(tt.out, "\n") {
				t.Errorf("printed %q, want %q", got, tt.out)
			}
		})
	}
}

// A loop at the end reads what the kernel counted: as many writes as dd makes.
func TestBpftraceLoopCounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs: root (BPF)")
	}
	dd, err := exec.LookPath("dd")
	if err != nil {
		t.Skip("needs: tool dd")
	}
	const writes = 3000
	out, messages, err := runBpftrace(t, BpftraceRequest{
		Program: `tracepoint:syscalls:sys_enter_write /pid == cpid && args.fd == 1/ {
				@n[comm, args.count] = count(); @m[comm]++; @s[args.count] = sum(args.count); }
			END { $all = 0; for ($kv : @n) { printf("%s %d %d,", $kv.0.0, $kv.0.1, $kv.1); }
				for ($kv : @m) { printf("%s %d,", $kv.0, $kv.1); }
				for ($kv : @s) { $all += $kv.1; } printf("%d bytes", $all);
				clear(@n); clear(@m); clear(@s); }`,
		Command: fmt.Sprintf("%s if=/dev/zero of=/dev/null bs=7 count=%d", dd, writes), Quiet: true,
	})
	if err != nil {
		t.Fatalf("%v %s", err, messages)
	}
	want := fmt.Sprintf("dd 7 %d,dd %d,%d bytes", writes, writes, 7*writes)
	if got := strings.TrimRight(out, "\n"); got != want {
		t.Errorf("printed %q and %q, want %q", got, messages, want)
	}
}

// The buckets of hist(VALUE, K) contain their values, whatever K.
func TestBpftraceFineBuckets(t *testing.T) {
	values := []int64{-5, -1}
	for x := range int64(300) {
		values = append(values, x)
	}
	for p := 9; p < 62; p++ {
		values = append(values, 1<<p-1, 1<<p, 1<<p+1<<(p-3)*3)
	}
	for bits := 1; bits <= 5; bits++ {
		n := int64(1) << bits
		b, wrong := format.LlquantizeBuckets(2, int64(bits), 61, 2*n)
		if wrong != nil {
			t.Fatal(wrong)
		}
		for _, x := range values {
			y := x
			switch { // as lang/bpftrace translates it
			case x < 0:
				y = 0
			case x < n:
				y = -(x + n)
			}
			data := make([]int64, b.Len())
			data[b.Bucket(y)] = 1
			table := bpftrace.Table{Func: "hist", Bits: bits, Rows: []bpftrace.Row{
				{Buckets: bpftrace.FineBuckets(data, bits)},
			}}
			var line struct {
				Data map[string][]struct{ Min, Max *int64 }
			}
			if err := json.Unmarshal(table.AppendJSON(nil), &line); err != nil {
				t.Fatal(err)
			}
			got := line.Data["@"]
			if len(got) != 1 || got[0].Max == nil {
				t.Fatalf("hist(%d, %d): %s", x, bits, table.AppendJSON(nil))
			}
			least := int64(math.MinInt64)
			if got[0].Min != nil {
				least = *got[0].Min
			}
			if most := *got[0].Max; x < least || x > most || x >= 0 && most-least > x/n {
				t.Errorf("hist(%d, %d) is in %d to %d", x, bits, least, most)
			}
		}
	}
}

func TestBpftraceFineHist(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs: root (BPF)")
	}
	bar := func(n int) string {
		return "|" + strings.Repeat("@", n) + strings.Repeat(" ", 52-n) + "|\n"
	}
	out, messages, err := runBpftrace(t, BpftraceRequest{Quiet: true, Program: `BEGIN {
		@ = hist(5, 1); @ = hist(2, 1); @ = hist(2, 1); @k["a"] = hist(1500, 2); exit(); }`})
	want := "\n\n@: \n[2]                    2 " + bar(52) +
		"[3]                    0 " + bar(0) + "[4, 6)                 1 " + bar(26) +
		"\n@k[a]: \n[1280, 1536)           1 " + bar(52) + "\n"
	if err != nil || messages != "" || out != want {
		t.Errorf("%v %s printed\n%s want\n%s", err, messages, out, want)
	}
}
