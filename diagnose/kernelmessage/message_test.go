package kernelmessage

import (
	"strings"
	"testing"

	"culprit/heapbound"
)

func TestRecovers(t *testing.T) {
	all := Messages()
	for _, tt := range []struct {
		name, text, later string
		want              bool
	}{
		{"a link", "igb 0000:01:00.0 eno1: igb: eno1 NIC Link is Down",
			"igb 0000:01:00.0 eno1: igb: eno1 NIC Link is Up 1000 Mbps Full Duplex", true},
		{"another link", "igb 0000:01:00.0 eno1: igb: eno1 NIC Link is Down",
			"igb 0000:01:00.1 eno2: igb: eno2 NIC Link is Up 1000 Mbps Full Duplex", false},
		{"a server", "nfs: server filer-7 not responding, still trying", "nfs: server filer-7 OK",
			true},
		{"another server", "nfs: server filer-7 not responding, still trying",
			"nfs: server filer-77 OK", false},
		{"what does not recover", "I/O error, dev sda, sector 7", "I/O error, dev sda, sector 7",
			false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, name, _ := Find(all, tt.text)
			if m == nil || name == "" {
				t.Fatalf("%q is not found", tt.text)
			}
			if got := m.Recovers(name, tt.later); got != tt.want {
				t.Errorf("recovers: %t", got)
			}
		})
	}
}

// TestNamesOfPrograms: a program whose name begins as another message is one that crashed.
func TestNamesOfPrograms(t *testing.T) {
	for _, name := range []string{"Out of memory: ", "I/O error, dev ", "EXT4-fs error (",
		"NETDEV WATCHDOG", "[Hardware Error", "nf_conntrack: t", "a[7]: b"} {
		m, got, _ := Find(Messages(), name+"[811]: segfault at 10 ip 00007f sp 00007f error 4")
		if m == nil || m.Event != "crash" || got != name {
			t.Errorf("%q: %v of %q", name, m, got)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add("nginx[811]: segfault at 10 ip 00007f sp 00007f error 4 in nginx[55d+c8000]")
	f.Add("igb 0000:01:00.0 eno1: igb: eno1 NIC Link is Up 100 Mbps Half Duplex")
	f.Add("rcu: INFO: rcu_sched detected stalls on CPUs/tasks: NFS: I/O error, dev - timeout")
	all := Messages()
	heapbound.Fuzz(f, func(t *testing.T, text string) {
		m, name, detail := Find(all, text)
		if m == nil {
			return
		}
		if !strings.Contains(text, name) || !strings.Contains(text, detail) {
			t.Errorf("%q: name %q, detail %q", text, name, detail)
		}
		m.Recovers(name, text)
		if claim := m.Sentence(name, detail, "once"); claim == "" {
			t.Error("no claim")
		}
	})
}
