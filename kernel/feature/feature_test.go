package feature

import (
	"errors"
	"strings"
	"testing"

	"culprit/kernel"
	"culprit/measure"
)

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
		{SchedInfo, map[string]string{"proc/thread-self/schedstat": "0 0 0\n"},
			measure.ErrUnsupported, "switched off"},
		{SchedInfo, map[string]string{"proc/thread-self/schedstat": "x"}, measure.ErrUnclear,
			"not a number"},
		{SchedInfo, nil, measure.ErrUnsupported, "CONFIG_SCHED_INFO"},
		{Schedstat, map[string]string{"proc/schedstat": "version 16"}, nil, ""},
		{DelayAccounting, map[string]string{"proc/sys/kernel/task_delayacct": "1\n"}, nil, ""},
		{DelayAccounting, map[string]string{"proc/sys/kernel/task_delayacct": "0\n"},
			measure.ErrUnsupported, "kernel.task_delayacct=1"},
		{DelayAccounting, map[string]string{"proc/cmdline": "ro nodelayacct quiet\n"},
			measure.ErrUnsupported, "nodelayacct"},
		{DelayAccounting, map[string]string{"proc/cmdline": "ro nodelayacct2 quiet\n"},
			measure.ErrUnclear, ""},
		{KernelAddresses, map[string]string{"proc/kallsyms": "ffffffff81000000 T _text\n"}, nil,
			""},
		{KernelAddresses, map[string]string{"proc/kallsyms": "0000000000000000 A " +
			"fixed_percpu_data\nffffffff81000000 T _text\n"}, nil, ""},
		{KernelAddresses, map[string]string{"proc/kallsyms": "0000000000000000 T " +
			"_text\n0000000000000000 T b\n", "proc/sys/kernel/kptr_restrict": "1\n"},
			measure.ErrDenied, "CAP_SYSLOG, or kernel.kptr_restrict 0 (is 1)"},
		{KernelAddresses, map[string]string{"proc/kallsyms": "0000000000000000 T _text\n",
			"proc/sys/kernel/kptr_restrict": "2\n"},
			measure.ErrDenied, "kernel.kptr_restrict below 2 (is 2)"},
		{KernelAddresses, map[string]string{"proc/kallsyms": ""}, measure.ErrUnsupported, "empty"},
		{BTF, map[string]string{"sys/kernel/btf/vmlinux": "\x9f\xeb"}, nil, ""},
		{BTF, nil, measure.ErrUnsupported, "CONFIG_DEBUG_INFO_BTF"},
		{Slabs, nil, measure.ErrUnsupported, ""},
		{Conntrack, nil, measure.ErrUnsupported, "not loaded"},
		{TaskIO, map[string]string{"proc/self/io": "rchar: 1"}, nil, ""},
		{CgroupV2, map[string]string{"proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup rw - " +
			"cgroup2 cgroup2 rw\n"}, nil, ""},
		{CgroupV1, map[string]string{"proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup rw - " +
			"cgroup2 cgroup2 rw\n"}, measure.ErrUnsupported, "not mounted"},
		{CgroupV1, map[string]string{"proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup/systemd " +
			"rw - cgroup cgroup rw,name=systemd\n"}, measure.ErrUnsupported, ""},
		{CgroupV1, map[string]string{"proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup/cpu rw " +
			"- cgroup cgroup rw,cpu,cpuacct\n"}, nil, ""},
		{Taskstats, nil, measure.ErrUnclear, "captured tree"},
		{featureCount, nil, measure.ErrUnclear, ""},
	}
	for _, test := range tests {
		err := test.feature.Have(captured(t, test.files))
		if !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s with %q: %v; want %v, %q", test.feature, test.files, err, test.want,
				test.says)
		}
	}
}

// TestHaveThisKernel checks that each feature has an answer with a reason, on whatever kernel this
// runs. In an empty tree no feature is present.
func TestHaveThisKernel(t *testing.T) {
	for f := range featureCount {
		err := f.Have(kernel.Root{})
		known := err == nil || errors.Is(err, measure.ErrUnsupported) ||
			errors.Is(err, measure.ErrDenied)
		if strings.HasPrefix(f.String(), "feature") || !known && f != DelayAccounting {
			t.Errorf("%s: %v", f, err)
		}
		t.Logf("%s: %v", f, err)
		if err := f.Have(captured(t, nil)); err == nil {
			t.Errorf("%s is in an empty tree", f)
		}
	}
}
