package prom

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/view"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// FuzzExposition compares the writer of the text format with Prometheus's own parser: for any texts
// and numbers the parser finds the same labels and value, and nothing else.
func FuzzExposition(f *testing.F) {
	f.Add("eth0", "bytes", "help", 1.5)
	f.Add("a\\\"b\nc", "}\n# TYPE x counter\nx 1\n", "first\nsecond \\ third", math.Inf(1))
	f.Add("\xff\xfe", "", "\r\n\xc3", math.NaN())
	f.Add("ö,=\"{}", "\x00\t", "", math.Inf(-1))
	f.Add("\u2028", "\r", "\r", math.MaxFloat64)
	heapbound.Fuzz(f, func(t *testing.T, first, second, help string, value float64) {
		help = "help: " + help // the parser skips blanks before it
		list := view.AppendLabel(view.AppendLabel(nil, "first", first), "second", second)
		b := view.AppendMetric(nil, "culprit_test", "gauge", help)
		b = view.AppendMetricComment(b, help+first)
		b = view.AppendSample(b, "culprit_test", string(list), value)
		b = view.AppendSample(b, "culprit_test", "", value)
		valid := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
		p := textparse.NewPromParser(b, labels.NewSymbolTable(), false)
		series := 0
		for {
			entry, err := p.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in\n%s", err, b)
			}
			switch entry {
			case textparse.EntryHelp:
				if _, got := p.Help(); string(got) != valid(help) {
					t.Errorf("help %q, want %q", got, valid(help))
				}
			case textparse.EntrySeries:
				_, _, got := p.Series()
				if got != value && (got == got || value == value) {
					t.Errorf("value %v, want %v", got, value)
				}
				var l labels.Labels
				p.Labels(&l)
				if series == 0 &&
					(l.Get("first") != valid(first) || l.Get("second") != valid(second)) {
					t.Errorf("labels %s, want %q and %q", l, first, second)
				}
				series++
			}
		}
		if series != 2 {
			t.Errorf("%d samples in\n%s", series, b)
		}
	})
}
