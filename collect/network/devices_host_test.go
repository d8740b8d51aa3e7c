package network

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/measure"
)

func TestDeviceCounters(t *testing.T) {
	s := collecttest.NewScene(t, "a", "b")
	s.Cable()
	k := collecttest.OpenTicker(t, Devices{}, &collect.Env{Netns: s.Prefix + "a"})
	if rows := k.Rows(); hasDeltas(rows) {
		t.Errorf("the first reading has rates: %v", rows)
	}
	s.Send(500, 1000)
	rows := k.Rows()
	a := s.Prefix + "a,va,"
	for row, want := range map[string]float64{
		"net.device.bytes " + a + "tx": 500 * (1000 + 42), "net.device.packets " + a + "tx": 500, "net.device.wire " + a + "tx": 500 * (1000 + 42 + 24),
		"net.device.bytes " + a + "rx": 0, "net.device.packets " + a + "rx": 0, "net.device.wire " + a + "rx": 0,
		"net.device.drops " + a + "tx": 0, "net.device.errors " + a + "rx": 0,
		"net.device.uses " + a + "address": 1, "net.device.uses " + a + "connected": 1, "net.device.uses " + a + "route": 0,
		"net.device.uses " + a + "neighbour": 1, "net.device.uses " + a + "packet-socket": 0, "net.device.uses " + a + "bound-socket": 0,
		"net.device.address " + a + "inet,10.77.0.1,24,global": 1,
	} {
		if got, ok := rows[row]; !ok || got != want {
			t.Errorf("%s = %v (%v), want %v", row, got, ok, want)
		}
	}
	if v := rows["net.device.capacity "+a+"tx,unknown"]; !math.IsNaN(v) {
		t.Error("a veth has the capacity", v)
	}
	for row := range rows {
		if strings.HasPrefix(row, "net.device.speed") {
			t.Error("an invented speed:", row, rows[row])
		}
	}

	// A renamed device continues with its counters.
	s.Run("ip -n @a link set va down && ip -n @a link set va name ether9 && ip -n @a link set " +
		"ether9 up")
	s.Run("ip -n @a neigh replace 10.77.0.2 lladdr 02:00:00:00:77:02 dev ether9 nud permanent")
	s.Carries("ether9")
	s.Send(10, 100)
	rows = k.Rows()
	if got := rows["net.device.bytes "+s.Prefix+"a,ether9,tx"]; got != 10*142 {
		t.Errorf("after the renaming %v bytes, want %v", got, 10*142)
	}
	if _, ok := rows["net.device.bytes "+a+"tx"]; ok {
		t.Error("the old name is still there")
	}

	// A device that is removed and made again with the same name is another one.
	s.Run("ip -n @a link del ether9")
	if rows = k.Rows(); rows["net.device.bytes "+s.Prefix+"a,lo,rx"] != 0 {
		t.Error(rows)
	}
	for row := range rows {
		if strings.Contains(row, "ether9") {
			t.Error("removed, and still there:", row)
		}
	}
	s.Cable()
	s.Send(100, 100)
	rows = k.Rows()
	if v, ok := rows["net.device.bytes "+a+"tx"]; ok {
		t.Errorf("a new device has a rate before it has two readings: %v", v)
	}
	s.Send(3, 100)
	if v := k.Rows()["net.device.bytes "+a+"tx"]; v != 3*142 {
		t.Error(v)
	}
}

func hasDeltas(rows map[string]float64) bool {
	kind := map[string]measure.Kind{}
	for _, st := range (Devices{}).Stats() {
		kind[string(st.ID)] = st.Kind
	}
	for row := range rows {
		id, _, _ := strings.Cut(row, " ")
		if kind[id] == measure.Delta {
			return true
		}
	}
	return false
}

// A device that reuses the index of another, with more traffic than that had, has no rate: events
// separate them.
func TestDeviceIndexUsedAgain(t *testing.T) {
	s := collecttest.NewScene(t, "a", "b")
	s.Run("ip -n @a link add va index 77 address 02:00:00:00:77:01 type veth peer name vb " +
		"netns @b address 02:00:00:00:77:02")
	k := collecttest.OpenTicker(
		t, Devices{}, &collect.Env{Netns: s.Prefix + "a"}, "net.device.bytes",
	)
	k.Rows()
	s.Run("ip -n @a link del va")
	s.Run("ip -n @a link add va index 77 address 02:00:00:00:77:01 type veth peer name vb " +
		"netns @b address 02:00:00:00:77:02")
	s.Run("ip -n @a addr add 10.77.0.1/24 dev va; ip -n @a link set va up; ip -n @b link set vb up")
	s.Run("ip -n @a neigh replace 10.77.0.2 lladdr 02:00:00:00:77:02 dev va nud permanent")
	s.Carries("va")
	s.Send(1000, 1000)
	if v, ok := k.Rows()["net.device.bytes "+s.Prefix+"a,va,tx"]; ok {
		t.Errorf("%v bytes", v)
	}
}

// After a failed reading nothing is compared: the growth is that of two intervals.
func TestDeviceReadingFails(t *testing.T) {
	s := collecttest.NewScene(t, "a", "b")
	s.Cable()
	k := collecttest.OpenTicker(
		t, Devices{}, &collect.Env{Netns: "all"}, "net.device.bytes", "net.qdisc.bytes",
	)
	k.Rows()
	d := spaceOf(t, k, s.Prefix+"a")
	s.Send(10, 1000)
	d.routes.SetDeadline(time.Now().Add(-time.Second))
	a := "net.device.bytes " + s.Prefix + "a,va,tx"
	if rows := k.Rows(); len(k.Notes) == 0 || rows[a] != 0 {
		t.Errorf("%v, notes %q", rows[a], k.Notes)
	}
	d.routes.SetDeadline(time.Time{})
	if v, ok := k.Rows()[a]; ok {
		t.Errorf("%v bytes of two intervals pass for one's", v)
	}
	s.Send(10, 1000)
	if v := k.Rows()[a]; v != 10*1042 {
		t.Error(v)
	}
}

// Without RTM_GETSTATS the counters come with the links, and are the same.
func TestDevicesWithoutStats(t *testing.T) {
	s := collecttest.NewScene(t, "a", "b")
	s.Cable()
	k := collecttest.OpenTicker(
		t, Devices{}, &collect.Env{Netns: s.Prefix + "a"}, "net.device.bytes", "net.device.info",
	)
	spaceOf(t, k, s.Prefix+"a").withoutStats()
	k.Rows()
	for range 3 {
		s.Send(7, 1000)
		if v, ok := k.Rows()["net.device.bytes "+s.Prefix+"a,va,tx"]; !ok || v != 7*1042 {
			t.Error(v, ok)
		}
	}
	// Without both, the text has the same counters.
	d := spaceOf(t, k, s.Prefix+"a")
	before := map[string][linkCounters]uint64{}
	for _, l := range d.order {
		before[l.name] = l.counters
		l.counters, l.counted = [linkCounters]uint64{}, 0
	}
	if err := d.readText(k.Out); err != nil {
		t.Fatal(err)
	}
	for _, l := range d.order {
		if l.counted != d.now || l.counters != before[l.name] {
			t.Errorf("%s: %v, want %v", l.name, l.counters, before[l.name])
		}
	}
	if before["va"][txPackets] != 21 {
		t.Error(before["va"])
	}
}

func spaceOf(t testing.TB, k *collecttest.Ticker, name string) *devices {
	t.Helper()
	for _, sp := range k.Reading.(*netDevices).spaces.List {
		if sp.Name == name {
			return sp.Data
		}
	}
	t.Fatal("no namespace", name)
	return nil
}

// A shaped veth has a capacity at both ends. Its super-frames are counted as the segments that they
// contain.
func TestShapedVeth(t *testing.T) {
	s := collecttest.NewScene(t, "a", "b")
	s.Cable()
	s.Run("tc -n @a qdisc add dev va root handle 1: tbf rate 1gbit burst 256k limit 4m")
	k := collecttest.OpenTicker(t, Devices{}, &collect.Env{Netns: "all"})
	k.Rows()
	const n = 20e6
	s.Stream(n)
	rows := k.Rows()
	for _, row := range []string{"a,va,tx", "b,vb,rx"} {
		if v := rows["net.device.capacity "+s.Prefix+row+",qdisc"]; v != 1e9 {
			t.Errorf("capacity of %s: %v", row, v)
		}
		// Ethernet, IPv4 and TCP headers with timestamps before each 1,448 bytes.
		want := n / 1448 * 1514.
		if v := rows["net.device.wire "+s.Prefix+row]; math.Abs(v-want) > 0.01*want {
			t.Errorf("wire of %s: %v, want %v within 1 %% (device %v, packets %v)", row, v, want,
				rows["net.device.bytes "+s.Prefix+row], rows["net.device.packets "+s.Prefix+row])
		}
	}
	q := s.Prefix + "a,va,tbf,1:,root"
	if v := rows["net.qdisc.bytes "+q]; v != rows["net.device.wire "+s.Prefix+"a,va,tx"] {
		t.Error("the discipline counts", v)
	}
	if rows["net.qdisc.rate "+q] != 1e9 || rows["net.qdisc.overlimits "+q] < 0 ||
		rows["net.qdisc.drops "+q] != 0 {
		t.Error(
			rows["net.qdisc.rate "+q], rows["net.qdisc.overlimits "+q], rows["net.qdisc.drops "+q],
		)
	}
	if name := infoField(t, rows, s.Prefix+"a", "va", "lower"); name != "vb@"+s.Prefix+"b" {
		t.Errorf("lower %q", name)
	}

	s.Run("tc -n @a qdisc del dev va root && tc -n @a qdisc add dev va root handle 1: htb " +
		"default 10 && tc -n @a class add dev va parent 1: classid 1:1 htb rate 300mbit ceil " +
		"400mbit")
	s.Run("tc -n @a class add dev va parent 1:1 classid 1:10 htb rate 100mbit ceil 200mbit")
	s.Run("tc -n @a qdisc add dev va parent 1:10 pfifo")
	rows = k.Rows()
	if v := rows["net.device.capacity "+s.Prefix+"a,va,tx,qdisc"]; v != 2e8 {
		t.Error("capacity of htb, of whose 400 Mbit/s the only leaf may have 200:", v)
	}
	if v := rows["net.qdisc.rate "+s.Prefix+"a,va,htb,1:10,1:1"]; v != 2e8 {
		t.Error("ceiling of a class:", v)
	}
	s.Send(20, 1000)
	sum := map[string]float64{} // a shaper delays them
	collecttest.UntilRows(
		t,
		k,
		"20 packets through each discipline",
		func(rows map[string]float64) bool {
			done := true
			for _, q := range []string{"1:10,1:1", "1:1,1:", "1:,root"} {
				sum[q] += rows["net.qdisc.packets "+s.Prefix+"a,va,htb,"+q]
				done = done && sum[q] >= 20
			}
			return done
		},
	)
	for q, v := range sum {
		if v != 20 {
			t.Errorf("%s: %v packets, want 20", q, v)
		}
	}

	// Each discipline above one that drops a packet counts the drop too. So the device's number is
	// that of the root, not the sum.
	s.Run("tc -n @a class change dev va parent 1:1 classid 1:10 htb rate 100kbit ceil 100kbit " +
		"burst 1600 cburst 1600 && tc -n @a qdisc change dev va parent 1:10 handle $(tc -n @a " +
		"qdisc show dev va | sed -n 's/qdisc pfifo \\([0-9a-f]*:\\) .*/\\1/p') pfifo limit 3")
	k.Rows()
	s.Send(50, 1000)
	drops := map[string]float64{}
	for row, v := range k.Rows() {
		if of, ok := strings.CutPrefix(row, "net.qdisc.drops "+s.Prefix+"a,va,"); ok && v > 0 {
			drops[strings.SplitN(of, ",", 2)[0]+of[strings.LastIndexByte(of, ','):]] = v
		}
	}
	if all := drops["htb,root"]; all < 40 || all > 47 || drops["htb,1:1"] != all ||
		drops["pfifo,1:10"] != all {
		t.Errorf("drops of 50 packets into a queue of 3: %v", drops)
	}
}

// infoField returns a field of net.device.info.
func infoField(t testing.TB, rows map[string]float64, netns, device, field string) string {
	t.Helper()
	var fields []measure.Field
	for _, st := range (Devices{}).Stats() {
		if st.ID == "net.device.info" {
			fields = st.Fields
		}
	}
	for row := range rows {
		id, labels, _ := strings.Cut(row, " ")
		values := strings.SplitN(labels, ",", len(fields)) // flags, which contain commas, come last
		if id == "net.device.info" && values[0] == netns && values[1] == device {
			for i, f := range fields {
				if f.Name == field {
					return values[i]
				}
			}
		}
	}
	t.Fatalf("no info of %s in %q", device, netns)
	return ""
}

// The speed of a tap counts if it was set.
func TestTapSpeed(t *testing.T) {
	s := collecttest.NewScene(t, "a")
	s.Run("ip -n @a tuntap add tap0 mode tap && ip -n @a link set tap0 up")
	k := collecttest.OpenTicker(t, Devices{}, &collect.Env{Netns: s.Prefix + "a"})
	a := s.Prefix + "a,tap0"
	if v, ok := k.Rows()["net.device.speed "+a]; ok &&
		(v != tapDefault || !strings.Contains(strings.Join(k.Notes, "\n"), "default")) {
		t.Error("the default speed of a tap:", v, k.Notes)
	}
	s.Run("ip netns exec @a ethtool -s tap0 speed 100 duplex half autoneg off")
	rows := k.Rows()
	if v := rows["net.device.speed "+a]; v != 1e8 {
		t.Error("speed", v)
	}
	if v := rows["net.device.capacity "+a+",rx,ethtool"]; v != 1e8 {
		t.Error("capacity", v)
	}
	d := infoField(t, rows, s.Prefix+"a", "tap0", "duplex")
	if kind := infoField(t, rows, s.Prefix+"a", "tap0", "kind"); d != "half" || kind != "tap" {
		t.Errorf("duplex %q, kind %q", d, kind)
	}
}

// A VXLAN repeats the speed of the device that it sends over. That of a veth is invented; that of a
// tap counts if it was set.
func TestVxlanSpeed(t *testing.T) {
	s := collecttest.NewScene(t, "a", "b")
	s.Cable()
	s.Run("ip -n @a link add vx0 type vxlan id 5 dstport 4789 dev va remote 10.77.0.2")
	s.Run("ip -n @a tuntap add tap0 mode tap && ip -n @a link set tap0 up")
	s.Run("ip netns exec @a ethtool -s tap0 speed 100 duplex full autoneg off")
	s.Run("ip -n @a link add vx1 type vxlan id 6 dstport 4790 dev tap0 remote 10.78.0.2")
	rows := collecttest.OpenTicker(t, Devices{}, &collect.Env{Netns: s.Prefix + "a"}).Rows()
	a := s.Prefix + "a,"
	if v, ok := rows["net.device.speed "+a+"vx0"]; ok {
		t.Error("the speed of a VXLAN over a veth:", v)
	}
	if v := rows["net.device.speed "+a+"vx1"]; v != 1e8 {
		t.Error("the speed of a VXLAN over a device of 100 Mbit/s:", v)
	}
	if lower := infoField(t, rows, s.Prefix+"a", "vx0", "lower"); lower != "" {
		t.Errorf("lower %q: a VXLAN is no port of the device that it sends over", lower)
	}
}

// Without a discipline that counts, none is read. A new one is emitted at the next reading,
// announced or not.
func TestQdiscsComeAndGo(t *testing.T) {
	s := collecttest.NewScene(t, "a", "b")
	s.Cable()
	k := collecttest.OpenTicker(
		t, Devices{}, &collect.Env{Netns: s.Prefix + "a"}, "net.qdisc.drops", "net.qdisc.bytes",
		"net.device.capacity",
	)
	k.Rows()
	d, a := spaceOf(t, k, s.Prefix+"a"), s.Prefix+"a,"
	none := func(when string) {
		t.Helper()
		k.Rows() // applies what was announced
		asked := d.routes.Sequence()
		if v, ok := k.Rows()["net.qdisc.drops "+a+"va,noqueue,0:,root"]; !ok || v != 0 {
			t.Errorf("%s: drops of noqueue: %v, %v", when, v, ok)
		}
		if n := d.routes.Sequence() - asked; !d.qdiscs.idle || n != 1 {
			t.Errorf("%s: %d requests in a reading, want that for the counters alone", when, n)
		}
	}
	none("at first")
	s.Run("tc -n @a qdisc add dev va root handle 1: tbf rate 1gbit burst 256k limit 4m")
	if v := k.Rows()["net.device.capacity "+a+"va,tx,qdisc"]; v != 1e9 {
		t.Error("capacity when a shaper has just come:", v)
	}
	s.Send(10, 1000)
	if v := k.Rows()["net.qdisc.bytes "+a+"va,tbf,1:,root"]; v != 10*1042 {
		t.Error("bytes of the shaper:", v)
	}
	s.Run("tc -n @a qdisc change dev va root handle 1: tbf rate 2gbit burst 256k limit 4m")
	if v := k.Rows()["net.device.capacity "+a+"va,tx,qdisc"]; v != 2e9 {
		t.Error("capacity when the shaper has just been changed:", v)
	}
	s.Run("tc -n @a qdisc del dev va root")
	if rows := k.Rows(); rows["net.qdisc.bytes "+a+"va,tbf,1:,root"] != 0 ||
		rows["net.device.capacity "+a+"va,tx,qdisc"] != 0 {
		t.Error("the shaper is gone and shows")
	}
	none("after the shaper")
	// the kernel makes its discipline, without an event
	s.Run("ip -n @a tuntap add tap0 mode tap && ip -n @a link set tap0 up")
	k.Rows()
	found := false
	for row := range k.Rows() {
		found = found || strings.HasPrefix(row, "net.qdisc.drops "+a+"tap0,")
	}
	if !found {
		t.Error("the discipline of a device that has come up does not show")
	}
}

// Namespaces come and go between readings. One that lost its name is closed, so that the kernel can
// remove it.
func TestNamespacesComeAndGo(t *testing.T) {
	s := collecttest.NewScene(t, "a", "b")
	k := collecttest.OpenTicker(t, Devices{}, &collect.Env{Netns: "all"})
	protocols := collecttest.OpenTicker(t, Protocols{}, &collect.Env{Netns: "all"})
	k.Rows()
	protocols.Rows()
	s.Add("c")
	s.Run("ip link add va netns @a type veth peer name vc netns @c && ip -n @c link set vc up")
	c := "net.device.bytes " + s.Prefix + "c,vc,rx"
	collecttest.UntilRows(t, k, "rates of the new namespace", func(rows map[string]float64) bool {
		v, ok := rows[c]
		if v > 1e6 {
			t.Error("an absurd rate:", v)
		}
		return ok
	})
	collecttest.UntilRows(t, protocols, "its protocols", func(rows map[string]float64) bool {
		_, ok := rows["net.protocol.events "+s.Prefix+"c,Ip,InReceives"]
		return ok
	})
	s.Run("ip netns del @c")
	collecttest.UntilRows(t, protocols, "its protocols to go", func(rows map[string]float64) bool {
		_, ok := rows["net.protocol.events "+s.Prefix+"c,Ip,InReceives"]
		return !ok
	})
	collecttest.UntilRows(t, k, "the namespace to go", func(rows map[string]float64) bool {
		_, there := rows[c]
		// the kernel removes its peer with it
		_, peer := rows["net.device.bytes "+s.Prefix+"a,va,rx"]
		return !there && !peer
	})
}

func TestNamedNamespace(t *testing.T) {
	s := collecttest.NewScene(t)
	want := collect.Want{"net.device.bytes": {}}
	if _, err := (Devices{}).Open(&collect.Env{Netns: s.Prefix + "x"}, want); err == nil {
		t.Error("a namespace that is not there was opened")
	}
	s.Add("x")
	k := collecttest.OpenTicker(
		t, Devices{}, &collect.Env{Netns: s.Prefix + "x"}, "net.device.bytes",
	)
	k.Rows()
	if rows := k.Rows(); len(rows) != 2 { // loopback, both directions
		t.Error(rows)
	}
	s.Run("ip netns del @x")
	note := false
	deadline := time.Now().Add(10 * time.Second)
	for ; !note && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		k.Out.Start(false, time.Now())
		_ = k.Reading.Read(k.Out)
		k.Out.Finish(nil)
		note = len(k.Out.Tables()[0].Batch().Notes) > 0 && len(k.Out.Tables()[0].Batch().Keys) == 0
	}
	if !note {
		t.Error("nothing is said of the namespace that went")
	}
}

// Each kind of use of a device is found.
func TestUses(t *testing.T) {
	s := collecttest.NewScene(t, "a", "b")
	s.Cable()
	s.Run("ip -n @a link add br0 type bridge && ip -n @a tuntap add tap0 mode tap && ip -n @a " +
		"link set tap0 master br0")
	s.Run("ip -n @a link add mv0 link va type macvlan mode bridge")
	s.Run("ip -n @a route add 10.99.0.0/16 via 10.77.0.2 && ip -n @a addr add 169.254.3.4/16 " +
		"scope link dev va")
	s.Run("ip -n @a maddr show dev va >/dev/null && tc -n @a qdisc add dev va clsact && tc -n " +
		"@a filter add dev va ingress u32 match u32 0 0 flowid :1")
	s.In("a", func() error { return bindSockets(t, "va") })
	k := collecttest.OpenTicker(
		t, Devices{}, &collect.Env{Netns: s.Prefix + "a"}, "net.device.uses",
	)
	rows := k.Rows()
	for row, want := range map[string]float64{
		"va,address": 1, "va,route": 1, "va,connected": 2, "va,upper": 1, "va,master": 0, "va,packet-socket": 1, "va,packet-protocol": 1, "va,bound-socket": 2,
		"va,multicast": 1, "va,tc": 1, "va,xdp": 0, "va,neighbour": 1, "tap0,master": 1, "tap0,upper": 0, "tap0,address": 0, "tap0,packet-socket": 0,
		"tap0,packet-protocol": 1, "tap0,promiscuous": 1, "lo,address": 0, "br0,master": 0,
	} {
		if v, ok := rows["net.device.uses "+s.Prefix+"a,"+row]; !ok || v != want {
			t.Errorf("%s: %v (%v), want %v", row, v, ok, want)
		}
	}
	if len(k.Notes) > 0 {
		t.Error(k.Notes)
	}
}

// Netlink, /proc/net/dev and ip(8) show the same counters.
func TestDeviceSourcesAgree(t *testing.T) {
	k := collecttest.OpenTicker(
		t, Devices{}, &collect.Env{SinceBoot: true}, "net.device.bytes", "net.device.packets",
		"net.device.errors", "net.device.drops", "net.device.fifo",
	)
	text := func() map[string][]uint64 {
		// /proc/net is that of the first thread, whose namespace another test may have changed
		b, err := os.ReadFile("/proc/thread-self/net/dev")
		if err != nil {
			t.Fatal(err)
		}
		out := map[string][]uint64{}
		for line := range strings.Lines(string(b)) {
			name, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
			if !ok {
				continue
			}
			for _, f := range strings.Fields(rest) {
				v, err := strconv.ParseUint(f, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				out[name] = append(out[name], v)
			}
		}
		return out
	}
	before := text()
	rows := k.Rows()
	after := text()
	for name, low := range before {
		high := after[name]
		if high == nil {
			continue // gone meanwhile
		}
		// bytes packets errs drop fifo frame compressed multicast, twice
		for i, stat := range []string{"bytes", "packets", "errors", "drops", "fifo"} {
			for j, direction := range []string{"rx", "tx"} {
				v, ok := rows["net.device."+stat+" ,"+name+","+direction]
				if at := i + 8*j; !ok || v < float64(low[at]) || v > float64(high[at]) {
					t.Errorf(
						"%s %s %s: netlink %v (%v), /proc/net/dev %d to %d", name, stat, direction,
						v, ok, low[at], high[at],
					)
				}
			}
		}
	}
}

// A reading without changes does not allocate.
func TestReadingsDoNotAllocate(t *testing.T) {
	for _, c := range []collect.Collector{Devices{}, Protocols{}, Tables{}} {
		k := collecttest.OpenTicker(t, c, &collect.Env{})
		for range 20 {
			k.Read()
		}
		var batches []*measure.Batch
		if n := testing.AllocsPerRun(50, func() {
			k.Out.Start(false, time.Now())
			if err := k.Reading.Read(k.Out); err != nil {
				t.Fatal(err)
			}
			batches = k.Out.Finish(batches[:0])
		}); n > 0 {
			t.Errorf("%T: %v allocations a reading", c, n)
		}
	}
}

func BenchmarkNetDevicesRead(b *testing.B) {
	b.Run("all", func(b *testing.B) { collecttest.BenchmarkRead(b, Devices{}) })
	b.Run("nic", func(b *testing.B) {
		collecttest.BenchmarkRead(
			b, Devices{}, "net.device.bytes", "net.device.packets", "net.device.errors",
			"net.device.drops", "net.device.fifo", "net.device.wire", "net.device.capacity",
			"net.device.info", "net.device.speed",
		)
	})
	b.Run(
		"bytes", func(b *testing.B) { collecttest.BenchmarkRead(b, Devices{}, "net.device.bytes") },
	)
}

// BenchmarkDevices reads loopback and 1 or 50 bridged veths, as on hosts of containers.
func BenchmarkDevices(b *testing.B) {
	for _, n := range []int{1, 50} {
		s := collecttest.NewScene(b)
		a, other := fmt.Sprintf("a%d", n), fmt.Sprintf("b%d", n)
		s.Add(a)
		s.Add(other)
		s.Run(fmt.Sprintf("ip -n @%s link add br0 type bridge && for i in $(seq %d); do ip "+
			"link add va$i netns @%s type veth peer name vb$i netns @%s && "+
			"ip -n @%s link set va$i master br0 up && ip -n @%s link set vb$i up; done", a, n, a, other, a, other))
		for _, what := range []struct {
			name string
			ids  []string
		}{
			{"all", nil},
			{"nic", []string{"net.device.bytes", "net.device.packets", "net.device.errors", "net.device.drops", "net.device.fifo", "net.device.wire",
				"net.device.capacity", "net.device.info", "net.device.speed"}},
			{"bytes", []string{"net.device.bytes"}},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, what.name), func(b *testing.B) {
				k := collecttest.OpenTicker(
					b,
					Devices{},
					&collect.Env{Netns: s.Prefix + a},
					what.ids...)
				k.Read()
				k.Read()
				b.ReportAllocs()
				for b.Loop() {
					k.Read()
				}
			})
		}
	}
}
