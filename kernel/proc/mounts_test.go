package proc

import (
	"bytes"
	"slices"
	"testing"

	"culprit/heapbound"
)

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
		"proc/self/mountinfo": "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup " +
			"rw,cpu,cpuacct\n" +
			"40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n" +
			"41 31 0:38 /slice /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n" +
			"27 1 254:0 / / rw - ext4 /dev/vda rw\n",
		"sys/fs/cgroup/unified/cgroup.controllers": "memory pids\n",
	})
	got, err := Cgroups(r)
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	if g := got[0]; g.V2 || g.Path != r.Sys+"/fs/cgroup/cpu,cpuacct" ||
		!slices.Equal(g.Controllers, []string{"cpu", "cpuacct"}) {
		t.Errorf("%+v", g)
	}
	if g := got[1]; len(g.Controllers) != 0 {
		t.Errorf("%+v", g)
	}
	if g := got[2]; !g.V2 || g.Part != "/slice" ||
		!slices.Equal(g.Controllers, []string{"memory", "pids"}) {
		t.Errorf("%+v", g)
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add([]byte("36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root " +
		"rw,errors=continue\n"))
	f.Add([]byte("40 35 0:9 / /none rw -  \n- - - - - - -"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
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
