package diagnose

import (
	"testing"

	"culprit/measure"
)

// TestOrderOfFindings: severity first, then the time that a fault takes from tasks; the fill of a
// table is no effect.
func TestOrderOfFindings(t *testing.T) {
	finding := func(id string, severity Severity, effect float64) *Finding {
		return &Finding{ID: id, Severity: severity, Confidence: 0.9, Effect: Number(effect),
			Explains: 1}
	}
	for _, tt := range []struct {
		name          string
		first, second *Finding
	}{
		{"a purge before a table near its limit", finding("purge", Medium, 0.31),
			finding("table", Medium, measure.NaN)},
		{"most time lost first", finding("z", High, 0.9), finding("a", High, 0.2)},
		{"unknown before next to nothing", finding("z", High, measure.NaN),
			finding("a", High, 0.01)},
		{"high before medium, whatever it takes", finding("z", High, 0), finding("a", Medium, 1)},
		{"medium before low, whatever it takes", finding("z", Medium, 0), finding("a", Low, 1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := []*Finding{tt.second, tt.first}
			rank(all)
			if all[0] != tt.first {
				t.Errorf("%s is before %s", all[0].ID, all[1].ID)
			}
		})
	}
}
