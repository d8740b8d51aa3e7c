package kernel

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// Two ways to the same answer must agree.
func TestCapabilitiesAgree(t *testing.T) {
	got, err := Root{}.Capabilities()
	if err != nil {
		t.Fatal(err)
	}
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&h, &data[0]); err != nil {
		t.Fatal(err)
	}
	if want := Capabilities(uint64(data[1].Effective)<<32 | uint64(
		data[0].Effective)); got != want {
		t.Errorf("%x, capget says %x", got, want)
	}
	c := Capabilities(1<<unix.CAP_NET_ADMIN | 1<<63)
	if !c.Has(unix.CAP_NET_ADMIN) || c.Has(unix.CAP_SYS_ADMIN) || c.Has(-1) || c.Has(64) {
		t.Error("Has")
	}
	if names := c.Names(); !slices.Equal(names, []string{"CAP_NET_ADMIN", "CAP_63"}) {
		t.Error(names)
	}
	if capabilityName(unix.CAP_CHECKPOINT_RESTORE) != "CAP_CHECKPOINT_RESTORE" ||
		capabilityName(unix.CAP_SYSLOG) != "CAP_SYSLOG" ||
		capabilityName(unix.CAP_LAST_CAP) != "CAP_CHECKPOINT_RESTORE" {
		t.Error("the table of names is out of step")
	}
	for _, status := range []string{"Name:\ta\n", "CapEff:\tzz\n", "CapEff:\n", ""} {
		if c, err := captured(t,
			map[string]string{"proc/thread-self/status": status}).Capabilities(); err == nil {
			t.Errorf("%q: %x", status, uint64(c))
		}
	}
}
