package command

import (
	"fmt"
	"strings"
	"testing"
)

// Options of sizes count as in dtrace: a string has the greatest length. Data that does not fit is
// reported.
func TestSizes(t *testing.T) {
	for _, c := range []struct{ options, text, out, errs string }{
		{"strsize=512 aggsize=1024", `BEGIN { @["a"] = count(); @["b"] = count(); @["c"] = count(); } BEGIN { exit(0); }`, "\n\n  a                                                                 1\n", "culprit: [DTRACEDROP_AGGREGATION] 2 aggregation drops on CPU "},
		{"strsize=512 dynvarsize=1100", `BEGIN { a["a"] = 1; a["b"] = 2; a["c"] = 3; printf("%d %d %d", a["a"], a["b"], a["c"]); } BEGIN { exit(0); }`, "1 2 0\n", "culprit: [DTRACEDROP_DYNAMIC] 1 dynamic variable drop\n"},
		{"specsize=1200 strsize=512", `BEGIN { s = speculation(); } BEGIN { speculate(s); trace("a"); } BEGIN { speculate(s); trace("b"); } BEGIN { speculate(s); trace("c"); } BEGIN { commit(s); } BEGIN { exit(0); }`,
			"ab\n", "culprit: [DTRACEDROP_SPEC] 1 speculative drop\n"},
		{"specsize=600 strsize=512", `BEGIN { s = speculation(); } BEGIN { speculate(s); trace("a"); } BEGIN { commit(s); } BEGIN { s = speculation(); } BEGIN { speculate(s); trace("b"); } BEGIN { commit(s); } BEGIN { exit(0); }`,
			// space is released; there are two speculations if the first ends in time
			"ab\n", ""},
	} {
		r := program("%s", c.text)
		r.Options = append(r.Options, strings.Fields(c.options+" droptags nspec=2")...)
		status, out, errs := traced(t, r, nil)
		if status != 0 || strings.TrimSpace(out) != strings.TrimSpace(c.out) ||
			!strings.HasPrefix(errs, c.errs) ||
			c.errs == "" && errs != "" {
			t.Errorf(
				"%s: %s\nstatus %d, printed %q and said %q, want %q and %q", c.options, c.text,
				status, out, errs, c.out, c.errs,
			)
		}
	}
}

// A distribution is shown if something was added to it, even when the weights add up to 0.
func TestWeightsThatCancel(t *testing.T) {
	_, out, errs := traced(
		t,
		program(
			`BEGIN { @z = lquantize(5, 0, 10, 5, 1); @z = lquantize(5, 0, 10, 5, -1); @n = lquantize(7, 0, 10, 5, 3); exit(0); } BEGIN /pid == 0/ { @never = quantize(1, 2); }`,
		),
		nil,
	)
	if n := strings.Count(out, "Distribution"); n != 2 ||
		!strings.Contains(out, "|@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 3 ") ||
		errs != "" {
		t.Errorf("%d distributions in %q, and said %q", n, out, errs)
	}
}

// A program can refer to 64 maps, and a script have more aggregations.
func TestManyAggregations(t *testing.T) {
	const many = 300
	var text, want strings.Builder
	text.WriteString("BEGIN { ")
	for i := range many {
		switch i % 3 {
		case 0:
			fmt.Fprintf(&text, "@a%d[%d] = sum(%d); ", i, i, i)
		case 1:
			fmt.Fprintf(&text, "@a%d[\"k%d\"] = max(%d); ", i, i, i)
		default:
			fmt.Fprintf(&text, "@a%d = count(); @a%d = count(); ", i, i)
		}
	}
	text.WriteString("printf(\"\\n\"); ")
	for i := range many {
		switch i % 3 {
		case 0:
			fmt.Fprintf(&text, "printa(\"%%d %%@d\\n\", @a%d); ", i)
			fmt.Fprintf(&want, "%d %d\n", i, i)
		case 1:
			fmt.Fprintf(&text, "printa(\"%%s %%@d\\n\", @a%d); ", i)
			fmt.Fprintf(&want, "k%d %d\n", i, i)
		default:
			fmt.Fprintf(&text, "printa(\"%%@d\\n\", @a%d); ", i)
			want.WriteString("2\n")
		}
	}
	status, out, errs := traced(t, program("%s exit(0); }", text.String()), nil)
	if status != 0 || strings.TrimSpace(out) != strings.TrimSpace(want.String()) || errs != "" {
		t.Errorf("status %d, printed %.300q and said %.500q", status, out, errs)
	}
}

// A size that does not even fit one element is an error before anything runs.
func TestSizesTooSmall(t *testing.T) {
	for options, text := range map[string]string{"aggsize=8": `BEGIN { @ = count(); exit(0); }`, "dynvarsize=15": `BEGIN { a[1] = 1; exit(0); }`} {
		r := program("%s", text)
		r.Options = append(r.Options, options)
		_, _, _, err := session(t.Context(), t, r)
		if err == nil || !strings.Contains(err.Error(), "-x "+options+" is too small for one ") {
			t.Errorf("%s: %v", options, err)
		}
	}
}
