package kernel

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// captured makes a tree of files below proc/ and sys/ and a Root for it.
func captured(t *testing.T, files map[string]string) Root {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		write(t, dir+"/"+name, content)
	}
	return Root{Proc: dir + "/proc", Sys: dir + "/sys"}
}

func TestHave(t *testing.T) {
	tests := []struct {
		feature Feature
		files   map[string]string
		want    error
		says    string
	}{
		{Pressure, map[string]string{"proc/pressure/cpu": "some avg10=0.00"}, nil, ""},
		{Pressure, nil, measure.ErrUnsupported, "CONFIG_PSI"},
		{SchedInfo, map[string]string{"proc/thread-self/schedstat": "2040 0 3\n"}, nil, ""},
		{SchedInfo, map[string]string{"proc/thread-self/schedstat": "0 0 0\n"}, measure.ErrUnsupported, "switched off"},
		{SchedInfo, map[string]string{"proc/thread-self/schedstat": "x"}, measure.ErrUnclear, "not a number"},
		{SchedInfo, nil, measure.ErrUnsupported, "CONFIG_SCHED_INFO"},
		{Schedstat, map[string]string{"proc/schedstat": "version 16"}, nil, ""},
		{DelayAccounting, map[string]string{"proc/sys/kernel/task_delayacct": "1\n"}, nil, ""},
		{DelayAccounting, map[string]string{"proc/sys/kernel/task_delayacct": "0\n"}, measure.ErrUnsupported, "kernel.task_delayacct=1"},
		{DelayAccounting, map[string]string{"proc/cmdline": "ro nodelayacct quiet\n"}, measure.ErrUnsupported, "nodelayacct"},
		{DelayAccounting, map[string]string{"proc/cmdline": "ro nodelayacct2 quiet\n"}, measure.ErrUnclear, ""},
		{KernelAddresses, map[string]string{"proc/kallsyms": "ffffffff81000000 T _text\n"}, nil, ""},
		{KernelAddresses, map[string]string{"proc/kallsyms": "0000000000000000 A fixed_percpu_data\nffffffff81000000 T _text\n"}, nil, ""},
		{KernelAddresses, map[string]string{"proc/kallsyms": "0000000000000000 T _text\n0000000000000000 T b\n", "proc/sys/kernel/kptr_restrict": "1\n"},
			measure.ErrDenied, "CAP_SYSLOG, or kernel.kptr_restrict 0 (is 1)"},
		{KernelAddresses, map[string]string{"proc/kallsyms": "0000000000000000 T _text\n", "proc/sys/kernel/kptr_restrict": "2\n"},
			measure.ErrDenied, "kernel.kptr_restrict below 2 (is 2)"},
		{KernelAddresses, map[string]string{"proc/kallsyms": ""}, measure.ErrUnsupported, "empty"},
		{BTF, map[string]string{"sys/kernel/btf/vmlinux": "\x9f\xeb"}, nil, ""},
		{BTF, nil, measure.ErrUnsupported, "CONFIG_DEBUG_INFO_BTF"},
		{Slabs, nil, measure.ErrUnsupported, ""},
		{Conntrack, nil, measure.ErrUnsupported, "not loaded"},
		{TaskIO, map[string]string{"proc/self/io": "rchar: 1"}, nil, ""},
		{CgroupV2, map[string]string{"proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"}, nil, ""},
		{CgroupV1, map[string]string{"proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"}, measure.ErrUnsupported, "not mounted"},
		{CgroupV1, map[string]string{"proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"}, measure.ErrUnsupported, ""},
		{CgroupV1, map[string]string{"proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"}, nil, ""},
		{Taskstats, nil, measure.ErrUnclear, "captured tree"},
		{featureCount, nil, measure.ErrUnclear, ""},
	}
	for _, test := range tests {
		err := test.feature.Have(captured(t, test.files))
		if !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s with %q: %v; want %v, %q", test.feature, test.files, err, test.want, test.says)
		}
	}
}

// On whatever kernel this runs, each feature gives one of the four answers and says why.
func TestDescribeThisKernel(t *testing.T) {
	d := Root{}.Describe()
	if d.Release == "" || d.OnlineCPUs < 1 || d.PossibleCPUs < d.OnlineCPUs || d.PageBytes < 4096 || len(d.Features) != int(featureCount) {
		t.Errorf("%+v", d)
	}
	for _, f := range d.Features {
		if strings.HasPrefix(f.Name, "feature") || !slices.Contains([]string{"yes", "unsupported", "denied", "unclear"}, f.Answer) || (f.Why == "") != (f.Answer == "yes") {
			t.Errorf("%+v", f)
		}
		if f.Answer == "unclear" && f.Name != "delay_accounting" {
			t.Errorf("could not tell: %+v", f)
		}
		t.Logf("%s: %s %s", f.Name, f.Answer, f.Why)
	}
	b, err := json.Marshal(d)
	if err != nil || !bytes.Contains(b, []byte(`"features":[{"name":"pressure","answer":`)) {
		t.Errorf("%s, %v", b, err)
	}
	// A tree with nothing in it is described too: everything is missing, nothing made up.
	d = captured(t, nil).Describe()
	if d.Release != "" || d.OnlineCPUs != 0 || d.Capabilities != nil || d.PerfEventParanoid != nil || d.Container != "" || d.UserNamespace || d.PIDNamespace {
		t.Errorf("nothing there: %+v", d)
	}
	for _, f := range d.Features {
		if f.Answer == "yes" {
			t.Errorf("nothing there, yet %+v", f)
		}
	}
}

// Two roads to the same answer must agree.
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
	if want := Capabilities(uint64(data[1].Effective)<<32 | uint64(data[0].Effective)); got != want {
		t.Errorf("%x, capget says %x", got, want)
	}
	c := Capabilities(1<<unix.CAP_NET_ADMIN | 1<<63)
	if !c.Has(unix.CAP_NET_ADMIN) || c.Has(unix.CAP_SYS_ADMIN) || c.Has(-1) || c.Has(64) {
		t.Error("Has")
	}
	if names := c.Names(); !slices.Equal(names, []string{"CAP_NET_ADMIN", "CAP_63"}) {
		t.Error(names)
	}
	if capabilityName(unix.CAP_CHECKPOINT_RESTORE) != "CAP_CHECKPOINT_RESTORE" || capabilityName(unix.CAP_SYSLOG) != "CAP_SYSLOG" || capabilityName(unix.CAP_LAST_CAP) != "CAP_CHECKPOINT_RESTORE" {
		t.Error("the table of names is out of step")
	}
	for _, status := range []string{"Name:\ta\n", "CapEff:\tzz\n", "CapEff:\n", ""} {
		if c, err := captured(t, map[string]string{"proc/thread-self/status": status}).Capabilities(); err == nil {
			t.Errorf("%q: %x", status, uint64(c))
		}
	}
}

func TestParseMounts(t *testing.T) {
	mounts, bad := ParseMounts([]byte(`22 27 0:21 / /proc rw,relatime - proc proc rw
36 35 98:0 /mnt1 /mnt\040two rw,noatime master:1 shared:2 - ext3 /dev/ro\134ot rw,errors=continue
40 35 0:9 / /none rw - tmpfs  rw
broken
1 2 x:y / /a rw - t s r
1 2 0:1 / /a rw t s r

99 1 259:1 / / rw - ext4 /dev/vda rw`))
	want := []Mount{
		{0, 21, "/", "/proc", "proc", "proc", "rw,relatime", "rw"},
		{98, 0, "/mnt1", "/mnt two", "ext3", `/dev/ro\ot`, "rw,noatime", "rw,errors=continue"},
		{0, 9, "/", "/none", "tmpfs", "", "rw", "rw"},
		{259, 1, "/", "/", "ext4", "/dev/vda", "rw", "rw"},
	}
	if !slices.Equal(mounts, want) || bad != 3 {
		t.Errorf("%+v, %d bad", mounts, bad)
	}
}

func TestCgroups(t *testing.T) {
	r := captured(t, map[string]string{
		"proc/self/mountinfo": "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
			"40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n" +
			"41 31 0:38 /slice /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n" +
			"27 1 254:0 / / rw - ext4 /dev/vda rw\n",
		"sys/fs/cgroup/unified/cgroup.controllers": "memory pids\n",
	})
	got, err := r.Cgroups()
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	if g := got[0]; g.V2 || g.Path != r.Sys+"/fs/cgroup/cpu,cpuacct" || !slices.Equal(g.Controllers, []string{"cpu", "cpuacct"}) {
		t.Errorf("%+v", g)
	}
	if g := got[1]; len(g.Controllers) != 0 {
		t.Errorf("%+v", g)
	}
	if g := got[2]; !g.V2 || g.Part != "/slice" || !slices.Equal(g.Controllers, []string{"memory", "pids"}) {
		t.Errorf("%+v", g)
	}
}

func TestContainerHints(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"gvisor":     {"proc/version": "Linux version 4.4.0 " + gvisorVersion},
		"kubernetes": {"proc/self/cgroup": "0::/kubepods.slice/kubepods-pod1.slice/x\n"},
		"docker":     {"proc/self/cgroup": "0::/\n", "proc/1/cgroup": "12:cpu:/docker/4f1c\n"},
		"":           {"proc/self/cgroup": "0::/system.slice/docker.service\n"},
		"lxc":        {"proc/1/cgroup": "4:memory:/lxc/one\n"},
	} {
		if got := captured(t, files).container(); got != want {
			t.Errorf("%q: %q, want %q", files, got, want)
		}
	}
	if got := marked("none [integrity] confidentiality\n"); got != "integrity" {
		t.Error(got)
	}
	if got := marked("none [integrity"); got != "" {
		t.Error(got)
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add([]byte("36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"))
	f.Add([]byte("40 35 0:9 / /none rw -  \n- - - - - - -"))
	f.Fuzz(func(t *testing.T, b []byte) {
		mounts, bad := ParseMounts(b)
		if len(mounts)+bad > bytes.Count(b, []byte("\n"))+1 {
			t.Fatal("more than lines")
		}
		for _, m := range mounts {
			if m.Point == "" || m.Type == "" {
				t.Fatalf("%+v", m)
			}
		}
	})
}

func BenchmarkDescribe(b *testing.B) {
	for b.Loop() {
		Root{}.Describe()
	}
}
