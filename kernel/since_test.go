package kernel

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"culprit/measure"
)

// A kernel that is older than a feature says which version brought it; one that is not never does.
func TestSince(t *testing.T) {
	r := Root{}
	for _, f := range Features() {
		major, minor := f.since()
		if major == 0 {
			continue
		}
		t.Run(f.String(), func(t *testing.T) {
			err := f.Have(r)
			want := fmt.Sprintf("%d.%d brought it", major, minor)
			if r.before(major, minor) {
				if !errors.Is(err, measure.ErrUnsupported) && !errors.Is(err, measure.ErrDenied) {
					t.Errorf("a kernel older than %d.%d has it: %v", major, minor, err)
				} else if errors.Is(err, measure.ErrUnsupported) && !strings.Contains(err.Error(), want) {
					t.Errorf("%v: lacks %q", err, want)
				}
			} else if err != nil && strings.Contains(err.Error(), "brought it") {
				t.Errorf("%v, on a kernel that is new enough", err)
			}
		})
	}
}
