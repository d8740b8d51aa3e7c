package classic

import (
	"slices"
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

func TestNICUtilization(t *testing.T) {
	tab := NIC().Table(view.Options{}, viewtest.Frame(
		viewtest.Answer(
			t, "net.device.bytes by netns,device,direction", measure.Delta, false,
			"'' eth0 rx 117875000", "'' eth0 tx 1000", "'' hub0 rx 1250000", "'' hub0 tx 1250000",
			"'' veth0 rx 125", "'' veth0 tx 125", "blue eth0 rx 0", "blue eth0 tx 112500000",
			"'' off rx 0", "'' off tx 0",
		),
		viewtest.Answer(
			t, "net.device.packets by netns,device,direction", measure.Delta, false,
			"'' eth0 rx 77860", "'' eth0 tx 10", "'' hub0 rx 1000", "'' hub0 tx 1000",
			"'' veth0 rx 1", "'' veth0 tx 1", "blue eth0 rx 0", "blue eth0 tx 80000", "'' off rx 0",
			"'' off tx 0",
		),
		viewtest.Answer(t, "net.device.errors by netns,device,direction", measure.Delta, false),
		viewtest.Answer(
			t, "net.device.drops by netns,device,direction", measure.Delta, false, "'' eth0 rx 2",
			"'' eth0 tx 1",
		),
		viewtest.Answer(t, "net.device.fifo by netns,device", measure.Delta, false, "'' eth0 2"),
		viewtest.Answer(
			t, "net.device.wire by netns,device,direction", measure.Delta, false,
			"'' eth0 rx 124875000",
		),
		viewtest.Answer(
			t, "net.device.capacity by netns,device,direction,from", measure.Level, false,
			"'' eth0 rx ethtool 1e9", "'' eth0 tx ethtool 1e9", "'' hub0 rx ethtool 1e8",
			"'' hub0 tx ethtool 1e8", "blue eth0 rx ethtool 1e10", "blue eth0 tx qdisc 1e9",
		),
		viewtest.Answer(
			t, "net.device.info by netns,device,admin,duplex", measure.Level, false,
			"'' eth0 up full 1", "'' hub0 up half 1", "'' veth0 up full 1", "blue eth0 up full 1",
			"'' off down '' 1",
		),
		viewtest.Answer(
			t, "net.qdisc.drops by netns,device where parent = \"root\"", measure.Delta, false,
			"'' eth0 4",
		),
	))
	viewtest.Expect(
		t,
		viewtest.Text(
			tab, "netns", "device", "rAvs", "%Util", "wire_util", "Sat", "rx_drops_per_s",
			"wDrop/s", "Fifo/s", "queue_drops_per_s", "capacity_bits_per_s", "from",
		),
		` eth0 1513.9 94.3 99.9 9 2 1 2 4 1000 ethtool
 hub0 1250 20 - - - - - - 100 ethtool
 veth0 125 - - - - - - - - unknown
blue eth0 - 90 - - - - - - 1000 qdisc`,
	)
}

// Disciplines and classes above one another all count the packet that the lowest drops.
func TestQueuesCountEachPacketOnce(t *testing.T) {
	for _, tool := range All() {
		for _, sentence := range tool.Ask(view.Options{}) {
			if q, err := measure.ParseQuery(sentence); err != nil {
				t.Error(err)
			} else if strings.HasPrefix(sentence, "net.qdisc.") && !slices.Contains(q.By, "parent") && !strings.Contains(sentence, `where parent = "root"`) {
				t.Errorf("%s asks %s: a packet is in it as often as there are disciplines above one another", tool.Name, sentence)
			}
		}
	}
}

// An interface that is down is left out, but not where it was asked for.
func TestNicShowsADownInterfaceThatWasNamed(t *testing.T) {
	f := viewtest.Frame(
		viewtest.Answer(
			t, "net.device.packets by netns,device,direction", measure.Delta, false, "'' eth0 rx 0",
			"'' eth0 tx 0", "'' eth1 rx 0", "'' eth1 tx 0",
		),
		viewtest.Answer(
			t, "net.device.info by netns,device,admin,duplex", measure.Level, false,
			"'' eth0 up full 1", "'' eth1 down full 1",
		),
	)
	viewtest.Expect(
		t, viewtest.Text(NIC().Table(view.Options{}, f), "device", "rx_packets_per_s"), "eth0 0",
	)
	viewtest.Expect(
		t,
		viewtest.Text(
			NIC().Table(view.Options{"interface": {"eth1"}}, f), "device", "rx_packets_per_s",
		),
		"eth1 0",
	)
	viewtest.Expect(
		t,
		viewtest.Text(NIC().Table(view.Options{"interface": {"eth1"}, "idle": {""}}, f), "device"),
		"",
	)
}
