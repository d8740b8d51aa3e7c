package probe

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/kernel"
	"culprit/lang/check"
	"culprit/measure"
)

// little is a captured kernel with a few trace events and no types.
func little(t testing.TB) *Env {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"available_events": "net:netif_receive_skb\nnet:netif_rx\nsock:sock_send_length\ntcp:tcp_probe\nsyscalls:sys_enter_read\n" +
			"syscalls:sys_exit_read\nsyscalls:sys_enter_newfstat\nsyscalls:sys_exit_newfstat\nftrace:print\nsched:sched_switch\n",
		"events/syscalls/sys_enter_read/format": "name: sys_enter_read\nID: 7\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n" +
			"\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:unsigned int fd;\toffset:16;\tsize:8;\tsigned:0;\n" +
			"\tfield:char * buf;\toffset:24;\tsize:8;\tsigned:0;\n\tfield:size_t count;\toffset:32;\tsize:8;\tsigned:0;\n",
		"available_filter_functions": "vfs_read\nvfs_write\nvfs_write\ntcp_v4_rcv.isra.0\nnfsd_open [nfsd]\nnfsd_read [nfsd]\n",
	} {
		path := dir + "/sys/kernel/tracing/" + name
		if err := os.MkdirAll(path[:strings.LastIndexByte(path, '/')], 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e := NewEnv(kernel.Root{Proc: dir + "/proc", Sys: dir + "/sys"})
	t.Cleanup(func() { e.Close() })
	return e
}

func names(t testing.TB, e *Env, text string) string {
	t.Helper()
	list, err := e.Probes(described(t, text))
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, p := range list {
		out = append(out, p.String())
	}
	return strings.Join(out, " ")
}

func TestProbes(t *testing.T) {
	e := little(t)
	for text, want := range map[string]string{
		"BEGIN":                        "dtrace:::BEGIN",
		"dtrace:::":                    "dtrace:::BEGIN dtrace:::END dtrace:::ERROR",
		"tick-5sec":                    "profile:::tick-5sec",
		"profile:::profile-997":        "profile:::profile-997",
		"profile-49*":                  "profile:::profile-499 profile:::profile-4999",
		"read:entry":                   "syscall:vmlinux:read:entry",
		"syscall::read:":               "syscall:vmlinux:read:entry syscall:vmlinux:read:return",
		"syscall:::entry":              "syscall:vmlinux:read:entry syscall:vmlinux:fstat:entry syscall:vmlinux:rt_sigreturn:entry",
		"sdt:net::":                    "sdt:net::netif_receive_skb sdt:net::netif_rx",
		"sched_switch":                 "sdt:sched::sched_switch",
		"rawtp:sched::sched_switch":    "rawtp:sched::sched_switch",
		"vfs_read:entry":               "fbt:vmlinux:vfs_read:entry",
		"fbt::vfs_*:":                  "fbt:vmlinux:vfs_read:entry fbt:vmlinux:vfs_read:return fbt:vmlinux:vfs_write:entry fbt:vmlinux:vfs_write:return",
		"fbt:nfsd::return":             "fbt:nfsd:nfsd_open:return fbt:nfsd:nfsd_read:return",
		"tcp_v4_rcv:return":            "fbt:vmlinux:tcp_v4_rcv.isra.0:return",
		"fbt::tcp_v4_rcv.isra.0:entry": "fbt:vmlinux:tcp_v4_rcv.isra.0:entry",
		"fbt::vfs_reed:entry":          "no probe matches fbt::vfs_reed:entry (did you mean vfs_read?)",
		"fbt::vfs_read:enter":          "no probe matches fbt::vfs_read:enter (its name can be entry, return)",
		"sdt:::print":                  "no probe matches sdt:::print (its name can be netif_receive_skb, netif_rx, sched_switch, sock_send_length, tcp_probe)",
		"sdt:net::netif_rxx":           "no probe matches sdt:net::netif_rxx (did you mean netif_rx?)",
		"syscall::reed:entry":          "no probe matches syscall::reed:entry (did you mean read?)",
		"syscall::read:enter":          "no probe matches syscall::read:enter (its name can be entry, return)",
		"sched:genunix::off-cpu":       "no probe matches sched:genunix::off-cpu (its module can be vmlinux)",
		"sched::disp:off-cpu":          "no probe matches sched::disp:off-cpu (it has no function: leave that part empty)",
		"sycall::read:entry":           "there is no provider sycall (did you mean syscall?)",
		"nothing:::":                   "there is no provider nothing (providers are dtrace profile syscall io proc sched tcp udp ip lockstat vminfo sysinfo sdt rawtp tracepoint fbt software hardware uprobe uretprobe usdt file)",
		"tick-0":                       "tick-0: 0 is not possible",
		"tick-5parsecs":                "tick-5parsecs: there is no unit parsecs (ns us ms s m h d hz)",
		"profile-":                     "profile-: a rate or an interval must follow the -: profile-97 or profile-10s",
		"profile-1000000000":           "profile-1000000000: the kernel's timers fire at most once in 10 us",
		"tick-99999999999999999999s":   "tick-99999999999999999999s: 99999999999999999999 is too large a number",
		"tick-9999999999d":             "tick-9999999999d: longer than 292 years",
		"2":                            "dtrace:::END",
		"2001":                         "syscall:vmlinux:read:return",
		"4":                            "no probe has the number 4",
	} {
		if got := names(t, e, text); got != want {
			t.Errorf("%s: %s\nwant %s", text, got, want)
		}
	}
}

// The same probe is one probe, however it was described, and keeps its number.
func TestProbesAreOne(t *testing.T) {
	e := little(t)
	first, err := e.Probes(described(t, "syscall::read:entry"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := e.Probes(described(t, fmt.Sprint(first[0].ID)))
	if err != nil || first[0] != second[0] {
		t.Error(second, err)
	}
	a, err := e.Probes(described(t, "tick-3s"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := e.Probes(described(t, "tick-7s"))
	if err != nil || a[0] == b[0] || a[0].ID == b[0].ID {
		t.Error(a[0], b[0], err)
	}
	if e.Every(a[0]) != 3e9 || e.Every(first[0]) != 0 {
		t.Error(e.Every(a[0]))
	}
	if again, err := e.Probes(described(t, "tick-3*")); err != nil || again[0] != a[0] {
		t.Error(again, err)
	}
}

func TestTimers(t *testing.T) {
	for name, want := range map[string]measure.Span{
		"tick-1": 1e9, "tick-100hz": 1e7, "profile-997": 1003009, "tick-10ms": 1e7, "tick-10msec": 1e7, "tick-20us": 2e4, "tick-20usec": 2e4,
		"tick-20000ns": 2e4, "tick-20000nsec": 2e4, "tick-1s": 1e9, "tick-1sec": 1e9, "tick-1m": 60e9, "tick-1min": 60e9, "tick-1h": 3600e9,
		"tick-1hour": 3600e9, "tick-2d": 2 * 86400e9, "tick-1day": 86400e9, "tick-1S": 1e9,
	} {
		if f, err := timer(name); err != nil || f == nil || f.every != want || f.Name != name {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	for _, name := range []string{"", "tick", "BEGIN", "ticks-1", "profiler-97"} {
		if f, err := timer(name); f != nil || err != nil {
			t.Errorf("%q: %+v, %v", name, f, err)
		}
	}
}

func FuzzTimer(f *testing.F) {
	f.Add("tick-97hz")
	heapbound.Fuzz(f, func(t *testing.T, name string) {
		if f, err := timer(name); f != nil && (err != nil || f.every < leastInterval) {
			t.Errorf("%q: %+v, %v", name, f, err)
		}
	})
}

func TestSyscallArguments(t *testing.T) {
	e := little(t)
	list, err := e.Probes(described(t, "syscall::read:"))
	if err != nil {
		t.Fatal(err)
	}
	args, why := list[0].Arguments()
	want := []check.Arg{
		{Name: "fd", C: "unsigned int"},
		{Name: "buf", C: "char *", User: true, From: 1},
		{Name: "count", C: "size_t", From: 2},
	}
	if fmt.Sprint(args) != fmt.Sprint(want) || why != "" {
		t.Errorf("%+v %s", args, why)
	}
	if args, why := list[1].Arguments(); len(args) != 2 || args[1].C != "long" || why != "" {
		t.Errorf("%+v %s", args, why)
	}
	list, err = e.Probes(described(t, "syscall::fstat:entry"))
	if err != nil {
		t.Fatal(err)
	}
	if args, why := list[0].Arguments(); args != nil ||
		!strings.Contains(why, "no trace event of fstat") {
		t.Errorf("%+v %s", args, why)
	}
}

func TestTracepointArguments(t *testing.T) {
	e := here(t)
	if _, err := e.BTF(); err != nil {
		t.Skip("needs: kernel feature BTF")
	}
	list, err := e.Probes(described(t, "sdt:net::netif_receive_skb"))
	if err != nil {
		t.Fatal(err)
	}
	args, why := list[0].Arguments()
	if len(args) != 1 || args[0].Name != "skb" || args[0].Type == nil || why != "" {
		t.Errorf("%+v %s", args, why)
	}
	if list[0].Site != check.SiteTracepointBTF {
		t.Error(list[0].Site)
	}
	list, err = e.Probes(described(t, "rawtp:::sched_switch"))
	if err != nil {
		t.Fatal(err)
	}
	if args, why := list[0].Arguments(); len(args) < 3 || args[1].Name != "prev" ||
		list[0].Site != check.SiteRawTracepoint {
		t.Errorf("%+v %s", args, why)
	}
}

// Whatever this kernel has: each probe of the list is found again under its full name and its
// number.
func TestListedAreFound(t *testing.T) {
	e := here(t)
	ids := map[uint32]bool{}
	var all []Listed
	if err := e.List(described(t, ":::"), func(l Listed) {
		if ids[l.ID] || l.ID == 0 {
			t.Errorf("the number %d twice: %+v", l.ID, l)
		}
		ids[l.ID] = true
		all = append(all, l)
	}); err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Errorf("%d probes", len(all))
	}
	for i := 0; i < len(all); i += len(all)/50 + 1 {
		l := all[i]
		for _, text := range []string{
			l.Provider + ":" + l.Module + ":" + l.Function + ":" + l.Name, fmt.Sprint(l.ID),
		} {
			list, err := e.Probes(described(t, text))
			if err != nil || len(list) != 1 || list[0].ID != l.ID {
				t.Errorf("%s: %v, %v", text, list, err)
			}
		}
	}
	for name, err := range e.Missing() {
		t.Log(name, err)
	}
}

func BenchmarkListSyscalls(b *testing.B) { benchmarkList(b, "syscall:::") }
func BenchmarkListAll(b *testing.B)      { benchmarkList(b, ":::") }

func benchmarkList(b *testing.B, text string) {
	here(b)
	d := described(b, text)
	n := 0
	for b.Loop() {
		e := NewEnv(kernel.Root{})
		n = 0
		if err := e.List(d, func(Listed) { n++ }); err != nil {
			b.Fatal(err)
		}
		e.Close()
	}
	b.ReportMetric(float64(n), "probes")
}
