package measure

import "testing"

func TestOvercounts(t *testing.T) {
	over := func(name string) Field { return Field{Name: name, Overlaps: true} }
	kinds := Stat{ID: "memory.size", Kind: Level, Fields: []Field{over("kind")}}
	groups := Stat{ID: "cgroup.memory", Kind: Level, Fields: []Field{over("cgroup"), over("kind")}}
	queues := Stat{ID: "net.qdisc.drops", Kind: Delta,
		Fields: []Field{{Name: "device"}, over("kind"), over("handle"), over("parent")}}
	most := Stat{ID: "irq.affinity", Kind: Level, Fold: Max, Fields: []Field{over("affinity")}}
	plain := Stat{ID: "cpu.time", Kind: Delta, Fields: []Field{{Name: "cpu"}, {Name: "mode"}}}
	for _, c := range []struct {
		of    Stat
		query string
		over  bool
	}{
		{kinds, `memory.size`, true},
		{kinds, `memory.size by kind`, false},
		{kinds, `memory.size where kind = "free"`, false},
		{kinds, `memory.size where kind in ("free", "dirty")`, true},
		{kinds, `memory.size where kind != "free"`, true},
		{groups, `cgroup.memory by cgroup`, true},
		{groups, `cgroup.memory by cgroup where kind = "anon"`, false},
		{groups, `cgroup.memory by cgroup,kind`, false},
		{queues, `net.qdisc.drops by device`, true},
		{queues, `net.qdisc.drops by device,kind`, true},
		{queues, `net.qdisc.drops by device where parent = "root"`, false},
		{queues, `net.qdisc.drops by device,handle`, false},
		{most, `irq.affinity`, false},
		{plain, `cpu.time`, false},
	} {
		q, err := ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.of.Overcounts(q); (got != "") != c.over {
			t.Errorf("%s: %q", c.query, got)
		}
	}
}
