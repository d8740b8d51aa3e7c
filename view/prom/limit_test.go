package prom

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

// nested wraps an expression n times: each %s of form is what is inside.
func nested(n int, form, inside string) string {
	for range n {
		inside = strings.ReplaceAll(form, "%s", inside)
	}
	return inside
}

// Expressions that are small and take much are refused with the limit, in less than a second and in
// little memory.
func TestExpensiveExpressions(t *testing.T) {
	a := device(t).api(noon.Add(600 * measure.Second))
	double := `label_replace(%s,"a","$1$1","a","(.*)")`
	join := `label_join(%s,"a","","a","a")`
	labels := "the labels of the query take more than 64 MB"
	for _, tt := range []struct{ name, path, text, want string }{
		{"label_replace doubles 23 times", "query",
			"count(" + nested(23, double, `label_replace(culprit_net_device_bytes_total,"a","x","","")`) + ")", labels},
		{"label_replace doubles a label of no series", "query",
			nested(40, double, `label_replace(vector(1),"a","x","","")`), labels},
		{"label_replace doubles the label of absent", "query",
			nested(40, double, `absent(nothing{a="x"})`), labels},
		{"label_join doubles", "query",
			nested(40, join, `label_replace(vector(1),"a","x","","")`), labels},
		{"label_replace doubles in a range", "query_range",
			nested(30, double, `label_replace(vector(1),"a","x","","")`), labels},
		{"parentheses", "format_query", nested(2400, "(%s)", "1"), "100 nested parentheses"},
		{"parentheses in a query", "query", nested(2400, "(%s)", "1"), "100 nested parentheses"},
		{"functions", "query", nested(101, "abs(%s)", "vector(1)"), "100 nested parentheses"},
		{"signs", "format_query", nested(2400, "-%s", "x"), "2401 nested operations in 2401 bytes"},
		{"sums", "format_query", "1" + strings.Repeat(" + 1", 1000), "1001 nested operations"},
		{"a long text", "format_query", nested(40, "abs(%s)", strings.Repeat("x", 60_000)),
			"nested operations in 60200 bytes"},
		{"repetitions in one regular expression", "query",
			`x{a=~"(` + strings.Repeat("abcdefgh", 400) + `){1000}"}`, "100000 instructions"},
		{"repetitions in several", "query", strings.Repeat(`x{a=~"(abcdefgh){1000}"} or `, 20) + "x",
			"100000 instructions"},
		{"repetitions of label_replace", "query",
			`label_replace(x,"a","","b","(` + strings.Repeat("abcdefgh", 400) + `){1000}")`,
			"100000 instructions"},
		{"repetitions in match[]", "series",
			`x{a=~"(` + strings.Repeat("abcdefgh", 400) + `){1000}"}`, "100000 instructions"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			_, got := get(t, a, tt.path, "query", tt.text, "match[]", tt.text,
				"start", seconds(noon), "end", seconds(noon+60e9), "step", "30")
			runtime.ReadMemStats(&after)
			if !strings.Contains(got, tt.want) {
				t.Errorf("%.200s, want %s", got, tt.want)
			}
			// The time is only compared with what ended nothing: 57 s.
			if d := time.Since(began); d > 10*time.Second {
				t.Errorf("it took %v", d)
			}
			if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 200 {
				t.Errorf("it took %d MB", took)
			}
		})
	}
}

// What people write is within the limits, just below each.
func TestExpressionsWithinTheLimits(t *testing.T) {
	a := device(t).api(noon.Add(600 * measure.Second))
	for name, text := range map[string]string{
		"parentheses":        nested(100, "(%s)", "1"),
		"sums":               "1" + strings.Repeat(" + 1", 700),
		"signs":              nested(1400, "-%s", "x"),
		"regular expression": `x{a=~"(abcdefgh){1000}"}`,
		"labels": nested(10, `label_replace(%s,"a","$1-$2","b","(.*):(.*)")`,
			`label_replace(vector(1),"b","x:y","","")`),
		"some doublings": nested(10, `label_replace(%s,"a","$1$1","a","(.*)")`,
			`label_replace(vector(1),"a","x","","")`),
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"query", "format_query"} {
				if code, got := get(t, a, path, "query", text); code != 200 {
					t.Errorf("%s: %s", path, got)
				}
			}
		})
	}
}

// The growth of labels is that of the functions.
func TestGrowthOfLabels(t *testing.T) {
	for text, want := range map[string]growth{
		`x`:            {1, 9, 1, 9}, // __name__x
		`sum(x) by(a)`: {1, 9, 1, 9},
		`label_replace(x, "ab", "$1-$1", "c", "(.*)")`: {2, 25, 3, 34},
		`label_join(x, "ab", ",", "c", "d", "e")`:      {3, 32, 4, 41},
		`count_values("abc", x)`:                       {1, 27, 1, 36},
		`x * on(a) group_left label_join(y, "b", "")`:  {1, 9, 1, 10},
	} {
		t.Run(text, func(t *testing.T) {
			e, err := new(API).parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := growthOf(e); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}
