package kernellog

import (
	"bytes"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/measure"
)

func TestParseRecord(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, tt := range []struct{ name, raw, want string }{
		{"an error", "3,812,5140900,-;EXT4-fs error (device vda): bad inode\n SUBSYSTEM=block\n",
			"error filesystem-error EXT4-fs error (device vda): bad inode"},
		{"a warning", "4,1,2,-;hpet: lost 7 rtc interrupts",
			"warning other hpet: lost 7 rtc interrupts"},
		{"a notice", "5,1,2,-;hpet: lost 7 rtc interrupts", ""},
		{"a known event at any level", "6,1,2,-;e1000e 0000:00:19.0 eth0: NIC Link is Down",
			"info link-down e1000e 0000:00:19.0 eth0: NIC Link is Down"},
		{"a mount is no event", "6,1,2,-;XFS (sda1): Mounting V5 Filesystem", ""},
		{"nor is a driver that greets", "6,1,2,-;nfs: server at your service", ""},
		{"a server that is back", "5,1,2,-;nfs: server nas OK", "notice server-back nfs: server nas OK"},
		{"killed", "3,1,2,-;Memory cgroup out of memory: Killed process 42 (python3) total-vm:9kB",
			"error oom-kill Memory cgroup out of memory: Killed process 42 (python3) total-vm:9kB"},
		{"stuck", "3,1,2,-;INFO: task mount:7 blocked for more than 120 seconds.",
			"error hung-task INFO: task mount:7 blocked for more than 120 seconds."},
		{"I/O", "3,1,2,-;I/O error, dev sdb, sector 123456789012 op 0x0:(READ)",
			"error io-error I/O error, dev sdb, sector 123456789012 op 0x0:(READ)"},
		{"addresses", "6,1,2,-;app[7]: segfault at 7ffd0123abcd ip 0x00005581deadbeef sp 1234",
			"info crash app[7]: segfault at 0x*** ip 0x*** sp 1234"},
		{"a name like a message", "6,1,2,-;I/O error, dev [7]: segfault at 10 ip 1 sp 1 error 4",
			"info crash I/O error, dev [7]: segfault at 10 ip 1 sp 1 error 4"},
		{"a limit", "6,1,2,-;TCP: out of memory -- consider tuning tcp_mem",
			"info limit TCP: out of memory -- consider tuning tcp_mem"},
		{"suppressed", "4,1,2,-;net_ratelimit: 27 callbacks suppressed",
			"warning suppressed net_ratelimit: 27 callbacks suppressed"},
		{"who asked for memory", "4,1,2,-;python3 invoked oom-killer: gfp_mask=0xcc0, order=0",
			"warning oom-cause python3 invoked oom-killer: gfp_mask=0xcc0, order=0"},
		{"a secret", "4,1,2,-;audit: proctitle --password=hunter2 x",
			"warning other audit: proctitle --password=*** x"},
		{"what a program wrote", "12,1,2,-;out of memory, honestly", ""},
		{"registers", "4,1,2,-;RAX: 00000000deadbeef RBX: 01", ""},
		{"a call of a trace", "4,1,2,-; ? do_syscall_64+0x5b/0x90", ""},
		{"terminal escapes", "4,1,2,-;a\x1b[31mred\x07\xff", "warning other a?[31mred??"},
		{"long", "4,1,2,-;" + long, "warning other " + long[:157] + "..."},
		{"no head", "4,1,2,-", ""},
		{"no number", "x,1,2,-;a", ""},
		{"nothing", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if r, ok := parseRecord([]byte(tt.raw), &measure.Masker{}); ok {
				got = levels[r.level] + " " + r.event + " " + string(r.text)
			}
			if got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte("3,812,5140900,-;I/O error, dev vda, sector 7\n SUBSYSTEM=block\n"))
	f.Add([]byte("6,1,2,c;eth0: Link is Up at 0xffff888012345678 token=abc"))
	heapbound.Fuzz(f, func(t *testing.T, data []byte) {
		r, ok := parseRecord(data, &measure.Masker{})
		if !ok {
			return
		}
		if len(r.text) == 0 || len(r.text) > maxText || r.level < 0 || r.level > levelDebug ||
			bytes.ContainsFunc(r.text, func(c rune) bool { return c < ' ' || c > '~' }) {
			t.Errorf("level %d, text %q", r.level, r.text)
		}
	})
}
