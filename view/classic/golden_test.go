package classic

import (
	"flag"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// goldenChoices are the labels of fields of which each object has all: an interface receives and
// sends. The key is a field, or a statistic and a field.
func goldenChoices() map[string]string {
	return map[string]string{
		"direction":              "rx tx",
		"disk direction":         "read write discard flush",
		"memory direction":       "in out",
		"process.io direction":   "read write",
		"mode":                   strings.Join(cpuModes(), " "),
		"process.cpu mode":       "usr sys",
		"thread.cpu mode":        "usr sys",
		"resource":               "cpu memory io",
		"scope":                  "some full",
		"window":                 "1m 5m 15m",
		"type":                   "minor major",
		"process.switches type":  "voluntary involuntary",
		"thread.switches type":   "voluntary involuntary",
		"reason":                 "blkio swapin",
		"vector":                 "NET_RX TIMER",
		"memory.size kind":       goldenSizes,
		"list":                   "supported advertised partner",
		"use":                    "address upper",
		"ring":                   "rx tx",
		"bound":                  "current max",
		"cache":                  "dentry tcp-established slab:kmalloc-64",
		"net.sockets protocol":   "TCP TCP6 UDP",
		"memory protocol":        "TCP UDP",
		"state":                  "inuse tw orphan",
		"process.count state":    "R S D Z T I X",
		"cpu.time cpu":           "0 1",
		"cpu.interrupts cpu":     "0 1",
		"softirq.count cpu":      "0 1",
		"softirq.time cpu":       "0 1",
		"irq.count cpu":          "0 1",
		"irq.time cpu":           "0 1",
		"filesystem.size kind":   "total used available",
		"filesystem.inodes kind": "total used available",
		"net.device.modes mode":  "100baseT/Full 1000baseT/Full",
		"events counter":         goldenCounters,
		"bytes counter":          "IpExt.InOctets IpExt.OutOctets",
		"level counter":          "Tcp.CurrEstab",
	}
}

// goldenCounters are protocol and counter of each column of tcp, and one more.
const goldenCounters = "IpExt.InOctets Ip6.InOctets IpExt.OutOctets Ip6.OutOctets Tcp.InSegs " +
	"Tcp.OutSegs Tcp.EstabResets Tcp.OutRsts Tcp.AttemptFails Tcp.RetransSegs Tcp.PassiveOpens " +
	"Tcp.ActiveOpens TcpExt.ListenDrops TcpExt.ListenOverflows TcpExt.TCPTimeouts " +
	"TcpExt.TCPFastRetrans Tcp.InErrs TcpExt.TCPSynRetrans TcpExt.TCPLostRetransmit " +
	"TcpExt.TCPOFOQueue TcpExt.PruneCalled TcpExt.OfoPruned TcpExt.RcvPruned Ip.InReceives " +
	"Ip6.InReceives Ip.OutRequests Ip6.OutRequests Ip.ForwDatagrams Ip6.OutForwDatagrams " +
	"Ip.ReasmReqds Ip6.ReasmReqds Ip.FragCreates Ip6.FragCreates Udp.InDatagrams " +
	"Udp6.InDatagrams Udp.OutDatagrams Udp6.OutDatagrams Udp.InErrors Udp6.InErrors " +
	"Udp.RcvbufErrors Udp6.RcvbufErrors Udp.SndbufErrors Udp6.SndbufErrors Udp.NoPorts " +
	"Udp6.NoPorts Udp.InCsumErrors Udp6.InCsumErrors TcpExt.TW"

const goldenSizes = "total available free buffers cached slab_reclaimable slab_unreclaimable " +
	"swap_total swap_free anon mapped shmem active inactive dirty writeback kernel_stack " +
	"page_tables vmalloc committed commit_limit"

// goldenObjects are the labels of the three objects of a table. The second one is idle; the third
// one lacks every other statistic.
func goldenObjects() map[string][3]string {
	return map[string][3]string{
		"netns":               {"''", "''", "blue"},
		"device":              {"eth0", "eth1", "eth0"},
		"disk device":         {"sda", "sda1", "loop0"},
		"irq device":          {"virtio0-input.0", "xhci", "''"},
		"softirq device":      {"''", "eth0", "''"},
		"irq":                 {"24", "9", "LOC"},
		"irq type":            {"PCI-MSI-edge", "IO-APIC-level", "''"},
		"affinity":            {"0-1", "1", "0"},
		"effective":           {"1", "''", "0"},
		"disk.info kind":      {"disk", "partition", "virtual"},
		"filesystem device":   {"/dev/sda1", "/dev/loop0", "/dev/mapper/vg-data"},
		"filesystem type":     {"ext4", "squashfs", "xfs"},
		"process.state state": {"R", "D", "Z"},
		"mount":               {"/", "/snap", "/data"},
		"access":              {"failed", "ro", "rw"},
		"parent":              {"''", "sda", "''"},
		"kind":                {"ethernet", "veth", "bridge"},
		"index":               {"2", "3", "4"},
		"driver":              {"virtio_net", "veth", "''"},
		"mac":                 {"52:54:00:12:34:56", "52:54:00:12:34:56", "02:42:ac:11:00:02"},
		"admin":               {"up", "down", "up"},
		"info state":          {"up", "down", "unknown"},
		"duplex":              {"half", "full", "''"},
		"autoneg":             {"on", "off", "''"},
		"mtu":                 {"1500", "9000", "1450"},
		"master":              {"br0", "''", "''"},
		"lower":               {"''", "eth0", "eth2"},
		"rxqueues":            {"2", "1", "4"},
		"txqueues":            {"3", "1", "8"},
		"flags":               {"up,running", "broadcast", "up"},
		"family":              {"ipv4", "ipv6", "ipv4"},
		"address":             {"10.0.0.1", "fe80::1", "172.17.0.1"},
		"prefix":              {"24", "64", "16"},
		"from":                {"ethtool", "qdisc", "ethtool"},
		"local":               {"10.0.0.1", "fe80::1", "172.17.0.1"},
		"localport":           {"22", "443", "51234"},
		"peer":                {"10.0.0.2", "fe80::2", "172.17.0.1"},
		"peerport":            {"50001", "50002", "8080"},
		"pid":                 {"101", "202", "303"},
		"process":             {"sshd", "nginx", "curl"},
		"tid":                 {"111", "222", "333"},
		"thread":              {"main", "worker", "io"},
		"side":                {"server", "server", "client"},
		"user":                {"root", "www-data", "1000"},
		"command":             {"/usr/sbin/sshd", "nginx:worker", "curl"},
	}
}

// goldenLabels returns the labels of a field for one object.
func goldenLabels(id measure.StatID, field string, object int) []string {
	subsystem, _, _ := strings.Cut(string(id), ".")
	short := string(id)[strings.LastIndex(string(id), ".")+1:]
	for _, key := range []string{
		string(id) + " " + field, subsystem + " " + field, short + " " + field, field,
	} {
		if labels, ok := goldenObjects()[key]; ok {
			return []string{labels[object]}
		}
		if labels := goldenChoices()[key]; labels != "" {
			return strings.Fields(labels)
		}
	}
	return []string{field}
}

// goldenValue returns a value that no other labels have, in the order of size of the statistic:
// below 1 for times, whose rate is a share.
func goldenValue(id measure.StatID, line string, object int) string {
	info := strings.HasSuffix(string(id), ".info")
	switch {
	case object == 1 && !info:
		return "0"
	case object == 2 && len(id)%2 == 1 && !info:
		return "-"
	case id == "memory.size" && strings.HasPrefix(line, "total"):
		return "9876543210"
	}
	h := fnv.New32a()
	fmt.Fprint(h, id, line)
	n := h.Sum32()%8999 + 1000
	for scale, suffixes := range map[string]string{
		"0.0%d":   "time wait cpu runwait delay short",
		"0.%d":    "busy",
		"%d00000": "speed modes capacity size rss",
		"%d.25":   "load operations",
	} {
		suffix := string(id)[strings.LastIndex(string(id), ".")+1:]
		if slices.Contains(strings.Fields(suffixes), suffix) {
			return fmt.Sprintf(scale, n)
		}
	}
	return fmt.Sprintf("%d.%d", n*n%99991, n%8+1)
}

// goldenAnswer answers a query for three objects.
func goldenAnswer(t *testing.T, text string) *measure.Answer {
	t.Helper()
	q, err := measure.ParseQuery(text)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	seen := map[string]bool{}
	for object := range 3 {
		rows := []string{""}
		for _, field := range q.By {
			var longer []string
			for _, row := range rows {
				for _, label := range goldenLabels(q.Stat, field, object) {
					begin := row
					if protocol, counter, ok := strings.Cut(label, "."); ok && field == "counter" {
						begin, label = strings.TrimSuffix(row, "protocol ")+protocol+" ", counter
					}
					longer = append(longer, begin+label+" ")
				}
			}
			rows = longer
		}
		for _, row := range rows {
			if !seen[row] {
				seen[row] = true
				lines = append(lines, row+goldenValue(q.Stat, row, object))
			}
		}
	}
	return viewtest.Answer(t, text, measure.Delta, false, lines...)
}

// goldenOptions returns no option, and each flag of a tool alone. Names match the first and the
// third object.
func goldenOptions(tool *view.Tool) []view.Options {
	names := map[string]string{
		"device": "sd?", "interface": "eth0", "pid": "101", "name": "ss*", "peer": "10.0.0.*",
		"mount": "/",
	}
	all := []view.Options{{}}
	for _, f := range tool.Flags {
		switch {
		case len(f.Values) > 0:
			for _, v := range f.Values {
				all = append(all, view.Options{f.Name: {v}})
			}
		case f.Value != "":
			all = append(all, view.Options{f.Name: {names[f.Name]}})
		default:
			all = append(all, view.Options{f.Name: {""}})
		}
	}
	return all
}

// TestGolden compares each table, with each option, with a file. The second object is idle, and the
// third one lacks every other statistic. TestColumnsShowTheirStatistics checks which number belongs
// to which column. This test covers the rest: widths, decimals, heads, order, remarks, hidden rows.
func TestGolden(t *testing.T) {
	for _, tool := range All() {
		t.Run(tool.Name, func(t *testing.T) {
			var b strings.Builder
			for _, o := range goldenOptions(tool) {
				f := viewtest.Frame()
				for _, text := range tool.Ask(o) {
					f.Answers = append(f.Answers, goldenAnswer(t, text))
				}
				fmt.Fprintf(&b, "== %s %v\n", tool.Name, map[string][]string(o))
				tab := tool.Table(o, f)
				b.WriteString(viewtest.Layout(tab))
				if len(tab.Rows) == 0 {
					t.Errorf("%v: no rows", o)
				}
			}
			viewtest.Golden(t, *update, tool.Name, b.String())
		})
	}
}

// TestGoldenLocks is TestGolden for waits for locks, with the stacks of waited.
func TestGoldenLocks(t *testing.T) {
	var b strings.Builder
	for _, o := range []view.Options{
		{},
		{"by": {LocksByProcess, LocksByPID}},
		{"stacks": {"2"}},
		{"hist": {""}},
		{"stacks": {"9"}, "hist": {""}, "coalesce": {""}, "kernel": {""}},
		{"by": {LocksByKind}, "user": {""}},
	} {
		fmt.Fprintf(&b, "== locks %v\n%s\n", map[string][]string(o), Locks().Ask(o))
		b.WriteString(viewtest.Layout(Locks().Table(o, waited(t))))
	}
	viewtest.Golden(t, *update, "locks", b.String())
}
