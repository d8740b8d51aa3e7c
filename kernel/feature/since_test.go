package feature

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"culprit/kernel"
	"culprit/measure"
)

// A kernel that is older than a part reports the version that brought it; one that is not never
// does.
func TestSince(t *testing.T) {
	r := kernel.Root{}
	for _, n := range Needs() {
		t.Run(n.Name, func(t *testing.T) {
			err := n.Have(r)
			// The tests of emulated kernels make docs/KERNELS.md of this.
			t.Logf("need\t%s\t%d.%d\t%v\t%s", n.Name, n.Major, n.Minor, err == nil, n.Without)
			want := fmt.Sprintf("%d.%d brought it", n.Major, n.Minor)
			if r.Before(n.Major, n.Minor) {
				if !errors.Is(err, measure.ErrUnsupported) && !errors.Is(err, measure.ErrDenied) {
					t.Errorf("a kernel older than %d.%d has it: %v", n.Major, n.Minor, err)
				} else if errors.Is(err, measure.ErrUnsupported) &&
					!strings.Contains(err.Error(), want) {
					t.Errorf("%v: lacks %q", err, want)
				}
			} else if err != nil && strings.Contains(err.Error(), "brought it") {
				t.Errorf("%v, on a kernel that is new enough", err)
			}
		})
	}
}

// Each part is there once, named as its feature, in the order of versions, with what is done
// without it.
func TestNeeds(t *testing.T) {
	order := func(a, b Need) int { return 1000*(a.Major-b.Major) + a.Minor - b.Minor }
	if !slices.IsSortedFunc(Needs(), order) {
		t.Error("not in the order of versions")
	}
	seen := map[string]bool{}
	for _, n := range Needs() {
		if n.Without == "" || seen[n.Name] {
			t.Errorf("%s: without it %q, twice %v", n.Name, n.Without, seen[n.Name])
		}
		seen[n.Name] = true
		if n.File == "" && n.Name != n.Feature.String() {
			t.Errorf("%s is the feature %s", n.Name, n.Feature)
		}
	}
}

// On a kernel that is said to be old, each part that is missing is reported with the version that
// brought it.
func TestOlder(t *testing.T) {
	r := captured(t, map[string]string{"proc/sys/kernel/osrelease": "5.4.0-generic\n",
		"proc/pressure/cpu": "some avg10=0.00\n"})
	for _, n := range Needs() {
		if n.File == "" {
			continue
		}
		t.Run(n.Name, func(t *testing.T) {
			want := fmt.Sprintf("this kernel is Linux 5.4.0-generic, and %d.%d brought it", n.Major,
				n.Minor)
			if err := n.Have(r); !errors.Is(err, measure.ErrUnsupported) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if n.Word == "" && FileSince(r, n.File) != fmt.Sprintf("Linux %d.%d brought it",
				n.Major, n.Minor) || FileSince(kernel.Root{Proc: t.TempDir()}, n.File) != "" {
				t.Errorf("%q for an old kernel, %q for one of no version", FileSince(r, n.File),
					FileSince(kernel.Root{Proc: t.TempDir()}, n.File))
			}
		})
	}
}
