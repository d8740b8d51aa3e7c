package captured

import (
	"strings"
	"testing"

	"culprit/diagnose/kernelmessage"
)

// logged are lines of kernel logs, with the finding of each and words that it has.
var logged = []struct{ line, id, words string }{
	{"Memory cgroup out of memory: Killed process 4711 (java) total-vm:9132428kB, anon-rss:1kB",
		"memory-pressure/killed-in-its-group-java", "killed java once|control group"},
	{"Out of memory: Kill process 812 (mysqld) score 912 or sacrifice child",
		"memory-pressure/killed-mysqld", "killed mysqld once|the machine had no memory left"},
	{"kworker/u8:2: page allocation failure: order:4, mode:0x40dc0(GFP_KERNEL|__GFP_COMP)",
		"memory-pressure/allocation-failed-2", "4-order pages"},
	{"INFO: task postgres:3121 blocked for more than 241 seconds.", "tasks-blocked/blocked-postgres",
		"postgres was blocked for more than 241 s once"},
	{"watchdog: BUG: soft lockup - CPU#11 stuck for 26s! [kswapd0:98]", "cpu-lockup/lockup-11",
		"CPU 11 ran kernel code for 26 s"},
	{"rcu: INFO: rcu_sched self-detected stall on CPU", "cpu-lockup/stall", "RCU stall"},
	{"nf_conntrack: nf_conntrack: table full, dropping packet", "table-full/conntrack-full",
		"tracked connections was full"},
	{"neighbour: arp_cache: neighbor table overflow!", "table-full/neighbours-full-neighbour",
		"table of neighbours was full"},
	{"TCP: request_sock_TCP: Possible SYN flooding on port 0.0.0.0:8443. Sending cookies.",
		"tcp-listen-overflow/flood-0.0.0.0:8443", "8443|Sending cookies"},
	{"TCP: request_sock_TCP: Possible SYN flooding on port 9200. Dropping request.  Check SNMP " +
		"counters.", "tcp-listen-overflow/flood-9200", "port 9200|Dropping request"},
	{"TCP: out of memory -- consider tuning tcp_mem", "limit-reached/tcp-memory", "tcp_mem"},
	{"VFS: file-max limit 65536 reached", "limit-reached/files", "All 65536 open files"},
	{"cgroup: fork rejected by pids controller in /system.slice/ci.service",
		"limit-reached/forks-/system.slice/ci.service", "ci.service reached its limit"},
	{"md/raid1:md0: Disk failure on sdb1, disabling device.", "array-degraded/array-sdb1",
		"without sdb1"},
	{"blk_update_request: I/O error, dev sdq, sector 88 op 0x0:(READ) flags 0x0",
		"disk-fails/disk-error-sdq", "sdq returned I/O errors"},
	{"Buffer I/O error on dev dm-3, logical block 12, async page read", "disk-fails/disk-error-dm-3",
		"dm-3 returned"},
	{"nvme nvme1: I/O 12 QID 3 timeout, aborting", "disk-hangs/disk-timeout-nvme1",
		"nvme1 were not answered"},
	{"ata3.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen",
		"disk-fails/link-reset-ata3", "ata3 did not answer"},
	{"EXT4-fs error (device sda2): ext4_find_entry:1455: inode #2: comm ls",
		"filesystem-fails/filesystem-sda2", "sda2 found errors"},
	{"XFS (vdb): Metadata corruption detected at xfs_inode_buf_verify",
		"filesystem-fails/filesystem-vdb", "vdb found errors"},
	{"EXT4-fs (sda2): Remounting filesystem read-only", "filesystem-fails/read-only-sda2",
		"became read-only"},
	{"nfs: server filer-7 not responding, still trying", "tasks-blocked/nfs-filer-7",
		"filer-7 did not answer"},
	{"NETDEV WATCHDOG: eth2 (igb): transmit queue 3 timed out", "net-drops/transmit-eth2",
		"eth2 did not send"},
	{"igb 0000:01:00.0 eno1: igb: eno1 NIC Link is Up 100 Mbps Half Duplex, Flow Control: None",
		"link-below-mode/link-slow-eno1", "eno1 came up with 100 Mbps Half Duplex"},
	{"tg3 0000:03:00.0 enp3s0: Link is up at 10 Mbps, full duplex",
		"link-below-mode/link-slow-enp3s0", "10 Mbps, full duplex"},
	{"clocksource: timekeeping watchdog on CPU1: Marking clocksource 'tsc' as unstable because the " +
		"skew is too large:", "clock-slow/clock-tsc", "clock tsc unstable"},
	{"mce: CPU7: Core temperature is above threshold, cpu clock throttled (total events = 9)",
		"cpu-throttled/throttled-7", "CPU 7 was slowed"},
	{"mce: [Hardware Error]: Machine check events logged", "hardware-fails/hardware",
		"machine check"},
	{"nginx[811]: segfault at 10 ip 00007f sp 00007f error 4 in nginx[55d+c8000]",
		"program-crashes/crash-nginx", "nginx crashed once"},
	{"I/O error, dev [811]: segfault at 10 ip 00007f sp 00007f error 4 in a[55d+c8000]",
		"program-crashes/crash-I/O error, dev ", "crashed once"},
	{"traps: node[4711] trap invalid opcode ip:55d sp:7ffe error:0 in node[55d+c8000]",
		"program-crashes/trap-node", "node crashed once (trap invalid opcode)"},
	{"traps: my app[7] general protection fault ip:55d sp:7ffe error:0 in libc.so.6[7f+c8000]",
		"program-crashes/trap-my app", "my app crashed once (general protection)"},
	{"EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#0_DIMM#0 (channel:0 slot:0)",
		"hardware-fails/memory-error-MC0", "controller MC0 returned wrong data once"},
	{"EDAC MC1: 3 CE memory scrubbing error on DIMM_B2 (channel:1 slot:0 page:0x1 offset:0x0)",
		"hardware-fails/memory-corrected-MC1", "MC1 returned wrong data that was corrected"},
}

// beginnings are those of lines in different logs.
var beginnings = []string{"[    1.234567] ", "[123456.789012] ", "[Mon Nov 23 10:11:12 2026] ",
	"Nov 23 10:11:12 db-7 kernel: ", "2026-11-23T10:11:12+0100 db-7 kernel: ", "<4>[ 99.000001] ",
	"kern  :err   : [  812.123456] ", "Nov  3 01:02:03 db-7 kernel: [ 42.100000] ",
	"2026-11-28T16:24:26,000123+00:00 ", "[   12.345678][  T811] ", "[   12.345678] db-7 kernel: ",
	"Nov 23 10:11:12.123456 db-7 kernel: ", "1795796152.123456 db-7 kernel: "}

// Each message has its finding in every form of the log, and all messages have a line here.
func TestKernelLog(t *testing.T) {
	seen := map[string]bool{}
	for _, tt := range logged {
		for _, b := range beginnings {
			c, err := Read("dmesg.txt", b+"usb 1-1: new device\n"+b+tt.line+"\n")
			if err != nil {
				t.Fatalf("%s%s: %v", b, tt.line, err)
			}
			r := Diagnose([]*Capture{c})
			f := findingOf(r, tt.id)
			if f == nil || len(r.Findings) != 1 {
				t.Errorf("%s%s: %v, want %s", b, tt.line, ids(r), tt.id)
				continue
			}
			for _, w := range strings.Split(tt.words, "|") {
				if !strings.Contains(textOf(f), w) {
					t.Errorf("%q is missing in %s", w, textOf(f))
				}
			}
			seen[c.Tables[0].Rows[1].Word("event")] = true
		}
	}
	for _, m := range kernelmessage.Messages() {
		if !seen[m.Event] && m.Least == 1 {
			t.Errorf("no line has the event %q", m.Event)
		}
	}
}

// A link that goes down twice is unsteady, once it is not. Other lines, and the same words outside
// the log, are no findings.
func TestKernelLogHealthy(t *testing.T) {
	down := "[ 1.000000] e1000e: eth0 NIC Link is Down\n[ 2.000000] e1000e: eth0 NIC Link is Up 1000 " +
		"Mbps Full Duplex, Flow Control: Rx\n"
	for text, want := range map[string]string{
		down:        "",
		down + down: "medium link-unsteady/link-down-eth0",
		"[ 1.000000] EXT4-fs (sda1): mounted filesystem with ordered data mode. Opts: errors=remount-ro\n": "",
		"[ 1.0000] nfs: server a OK\n": "",
		// Programs may write to the log, and claim anything.
		"[ 1.000000] usb: new\nuser  :err   : [ 2.000000] Out of memory: Killed process 7 (java)\n":  "",
		"[ 1.000000] usb: new\n<12>[ 2.000000] Out of memory: Killed process 7 (java)\n":             "",
		"we saw Out of memory: Killed process 7 (java) yesterday\n load average: 0.10, 0.10, 0.10\n": "",
	} {
		c, err := Read("dmesg.txt", text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got := strings.Join(ids(Diagnose([]*Capture{c})), " ")
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
