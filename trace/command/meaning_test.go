package command

import (
	"strings"
	"testing"
)

// Details of builtin variables, options and actions are as the guide describes them.
func TestSessionMeansWhatTheGuideSays(t *testing.T) {
	for _, c := range []struct{ text, out, errs string }{
		// Each probe of each clause has a number of its own.
		{`BEGIN, END { printf("%d ", epid); } BEGIN { printf("%d ", epid); exit(0); }`, "1 17 2 ", ""},
		// What runs a clause by hand is nobody's caller.
		{`BEGIN { printf("%d %d|", stackdepth, caller); stack(); printf("|"); exit(0); }`, "0 0|\n|", ""},
		{`tick-1ms { printf("%d %d", arg0, arg1 != 0); exit(0); }`, "0 1", ""},
		// The time of day goes on within a clause, and timestamp does not.
		{`BEGIN { a = walltimestamp; b = walltimestamp; c = timestamp; d = timestamp; printf("%d %d", b > a && b - a < 1000000000, d - c); exit(0); }`, "1 0", ""},
		{"#pragma D option maxframes=2\n" + `BEGIN { printf("%d", ustackdepth <= 2); exit(0); }`, "1", ""},
		// Behind speculate(0) nothing is done, and no speculation has this number.
		{`BEGIN { x = 1; speculate(0); x = 2; } BEGIN { commit(0); } BEGIN { discard(0); } BEGIN { commit(2); } BEGIN { discard(-1); } BEGIN { printf("%d ", x); exit(0); }`, "1 ",
			"culprit: error in dt_clause_3 for probe ID 1 (dtrace:::BEGIN): illegal operation at line 1 column 90: commit(2)\n" +
				"culprit: error in dt_clause_4 for probe ID 1 (dtrace:::BEGIN): illegal operation at line 1 column 111: discard(-1)\n"},
		// Each description of a clause counts for one.
		{`BEGIN, ERROR { x++; } BEGIN { *(int *)0; } BEGIN { exit(0); }`, "", "culprit: error in dt_clause_2 for probe ID 1 (dtrace:::BEGIN): invalid address (0x0) at line 1 column 31: *(int *)0\n"},
		{`BEGIN { setopt("quiet", "maybe"); setopt("bufsize", "1m"); setopt("aggsortrev"); @[1] = sum(1); @[2] = sum(2); exit(0); } END { printa("%d ", @); }`, "2 1 ",
			"culprit: error in dt_clause_0 for probe ID 1 (dtrace:::BEGIN): couldn't set option \"quiet\" to \"maybe\": Invalid value for specified option\n\n" +
				"culprit: error in dt_clause_0 for probe ID 1 (dtrace:::BEGIN): couldn't set option \"bufsize\" to \"1m\": Operation illegal when tracing is active\n\n"},
		{"#pragma D option printsize=4\nstruct s { int a; int b; };\n" + `BEGIN { p = (struct s *)alloca(8); p->a = 1; p->b = 2; print(p); exit(0); }`, "...\n", ""},
	} {
		_, out, errs := traced(t, program("%s", c.text), nil)
		got := strings.TrimSuffix(out, "\n")
		switch {
		case c.out == "...\n":
			if !strings.Contains(out, ".a = (int)1,") || !strings.Contains(out, "...\n") ||
				strings.Contains(out, ".b") {
				t.Errorf("%s\nprinted %q", c.text, out)
			}
		case got != c.out:
			t.Errorf("%s\nprinted %q, want %q", c.text, got, c.out)
		}
		if errs != c.errs {
			t.Errorf("%s\nsaid %q, want %q", c.text, errs, c.errs)
		}
	}
}
