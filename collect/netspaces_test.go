package collect

import (
	"testing"
	"time"

	"culprit/kernel/netlink"
)

// Namespaces that differ from the last report are listed at once.
func TestShownNamespacesAreListed(t *testing.T) {
	var n Namespaces
	later := time.Now().Add(time.Hour)
	for i, c := range []struct {
		shown []netlink.ProcessNet
		now   bool
	}{
		{[]netlink.ProcessNet{{PID: 1, Net: 100}}, true},
		{[]netlink.ProcessNet{{PID: 1, Net: 100}}, false},
		{[]netlink.ProcessNet{{PID: 1, Net: 100}, {PID: 7, Net: 200}}, true},
		{[]netlink.ProcessNet{{PID: 1, Net: 100}, {PID: 8, Net: 200}}, true},
		{[]netlink.ProcessNet{{PID: 1, Net: 100}}, true},
	} {
		n.next = later
		n.Report(c.shown)
		if n.next.IsZero() != c.now {
			t.Errorf("%d: %v shown: listed at once %v, want %v", i, c.shown, n.next.IsZero(), c.now)
		}
	}
	(*Namespaces)(nil).Report(nil) // no Source, so no Namespaces
}
