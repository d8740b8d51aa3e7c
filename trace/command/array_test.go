package command

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"culprit/lang/syntax"
)

// Associative arrays are printed as aggregations are, and can be cleared as a whole.
func TestArrays(t *testing.T) {
	for _, c := range []struct{ name, text, out string }{
		{"in the order of the values",
			`BEGIN { a["x"] = 5; a["y"] = -3; a["z"] = 4; a["z"] = 0; exit(0); }
				END { printa("%s %@d\n", a); }`,
			"y -3\nx 5\n"},
		{"without a format", `BEGIN { a[1, "k"] = 7; printa(a); exit(0); }`,
			"\n        1  k" + strings.Repeat(" ", 65) + "7\n"},
		{"nothing", `int a[string]; BEGIN { printa("%s %@d\n", a); exit(0); }`, ""},
		{"cleared", `BEGIN { a["x"] = 5; a["y"] = 6; clear(a); a["y"] = 7; exit(0); }
			END { a["z"] = 1; printf("%d %d\n", a["x"], a["y"]); printa("%s %@d\n", a); }`,
			"0 0\nz 1\n"},
		{"truncated", `BEGIN { a["x"] = 5; trunc(a); exit(0); } END { printf("%d\n", a["x"]); }`,
			"0\n"},
		{"texts cleared", `BEGIN { a[1] = "x"; clear(a); exit(0); }
			END { printf("%d\n", a[1] == "x"); }`,
			"0\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, out, errs := traced(t, program("%s", c.text), nil)
			if got := strings.TrimSuffix(out, "\n"); status != 0 || got != c.out || errs != "" {
				t.Errorf("status %d, printed %q and %q, want %q", status, got, errs, c.out)
			}
		})
	}
}

// An array that a clause counts in has as many as dd writes.
func TestArrayCounts(t *testing.T) {
	dd, err := exec.LookPath("dd")
	if err != nil {
		t.Skip("needs: tool dd")
	}
	const writes = 2500
	r := program(`syscall::write:entry /pid == $target && arg0 == 1/ { a[execname, arg2]++; }
		END { printa("%%s %%d %%@d\n", a); }`)
	r.Commands = []string{fmt.Sprintf("%s if=/dev/zero of=/dev/null bs=9 count=%d", dd, writes)}
	_, out, _ := traced(t, r, nil)
	if want := fmt.Sprintf("dd 9 %d", writes); strings.TrimSpace(out) != want {
		t.Errorf("printed %q, want %q", out, want)
	}
}

// What can't be printed or cleared is refused with what to write instead.
func TestArrayMistakes(t *testing.T) {
	for _, c := range []struct{ text, says, hint string }{
		{`BEGIN { self->a[1] = 2; printa(self->a); }`, "elements of each thread", "[tid, KEY]"},
		{`BEGIN { a[1] = "x"; printa(a); }`, "printa() prints numbers", "a[KEY, VALUE] = 1"},
		{`BEGIN { a[1] = 2; normalize(a, 2); }`, "requires an aggregation", "@a[KEY] = sum"},
		{`BEGIN { a[1] = 2; trunc(a, 1); }`, "removes all its elements", "trunc(a)"},
	} {
		t.Run(c.text, func(t *testing.T) {
			_, _, _, err := session(t.Context(), t, program("%s", c.text))
			var ds syntax.Diagnostics
			if !errors.As(err, &ds) || !strings.Contains(ds[0].Message, c.says) ||
				!strings.Contains(ds[0].Hint, c.hint) {
				t.Errorf("%v", err)
			}
		})
	}
}
