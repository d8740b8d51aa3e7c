package all

import (
	"testing"

	"culprit/collect"
	"culprit/measure"
)

func TestWholes(t *testing.T) {
	all := map[measure.StatID]measure.Stat{}
	for _, st := range collect.New(collect.Env{}, Collectors()...).Stats() {
		all[st.ID] = st
	}
	for _, want := range []struct {
		id       measure.StatID
		field    string
		overlaps bool
	}{
		{"memory.size", "kind", true}, {"filesystem.size", "kind", true}, {"filesystem.inodes", "mount", false}, {"cgroup.memory", "cgroup", true}, {"cgroup.memory", "kind", true},
		{"cgroup.memory.events", "cgroup", true}, {"cgroup.memory.events", "event", false}, {"cgroup.cpu", "cgroup", true}, {"cgroup.cpu", "mode", false},
		{"pressure.time", "scope", true}, {"pressure.time", "resource", false}, {"net.qdisc.drops", "parent", true}, {"net.qdisc.drops", "device", false},
		{"net.device.modes", "mode", true}, {"net.device.errors.detail", "reason", true}, {"sched.load", "window", true}, {"net.protocol.events", "counter", true},
		{"cache.entries", "cache", true}, {"irq.affinity", "effective", true}, {"cpu.time", "mode", false}, {"disk.bytes", "device", true}, {"disk.bytes", "direction", false}, {"net.device.bytes", "device", false},
		{"tcp.flow.limited", "by", true}, {"tcp.flow.limited", "peer", false}, {"tcp.flow.bytes", "direction", false},
		{"net.ring.size", "bound", true}, {"net.ring.size", "ring", false},
		{"net.sockets", "state", true}, {"net.sockets", "netns", false}, {"net.sockets.memory", "protocol", false},
	} {
		st := all[want.id]
		f, i := st.Field(want.field)
		if i < 0 || f.Overlaps != want.overlaps {
			t.Errorf("%s by %s: field %d, overlaps %v", want.id, want.field, i, f.Overlaps)
		}
	}
	for _, id := range []measure.StatID{"process.cpu", "thread.cpu"} {
		q, err := measure.ParseQuery(all[id].Whole.Query)
		if err != nil || len(q.By) != 0 || all[q.Stat].Unit != all[id].Unit ||
			all[q.Stat].Kind != all[id].Kind {
			t.Errorf("the whole of %s is %q: %v", id, all[id].Whole.Query, err)
		}
	}
}
