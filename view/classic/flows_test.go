package classic

import (
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

func TestFlowsReconcileWithTheInterfaces(t *testing.T) {
	f := viewtest.Frame(
		viewtest.Answer(
			t, "tcp.flow.bytes by "+flowFields+",direction", measure.Delta, true,
			"'' 10.0.0.1 40000 10.0.0.2 5201 77 iperf3 client tx 100000",
			"'' 10.0.0.1 40000 10.0.0.2 5201 77 iperf3 client rx 10",
			"'' 10.0.0.1 2049 10.0.0.3 900 1 [kernel] server tx 2000",
			"'' 10.0.0.1 2049 10.0.0.4 901 1 [kernel] server tx 1000",
		),
		viewtest.Answer(
			t, "tcp.flow.retransmits by "+flowFields, measure.Delta, true,
			"'' 10.0.0.1 40000 10.0.0.2 5201 77 iperf3 client 7",
		),
		viewtest.Answer(
			t, "tcp.flow.rtt by "+flowFields, measure.Level, false,
			"'' 10.0.0.1 2049 10.0.0.3 900 1 [kernel] server 2000000",
			"'' 10.0.0.1 2049 10.0.0.4 901 1 [kernel] server 4000000",
		),
		viewtest.Answer(
			t, "tcp.flow.delivery by "+flowFields, measure.Level, false,
			"'' 10.0.0.1 2049 10.0.0.3 900 1 [kernel] server 9e6",
			"'' 10.0.0.1 2049 10.0.0.4 901 1 [kernel] server 5e6",
		),
		viewtest.Answer(
			t, "net.device.bytes by netns,device,direction", measure.Delta, false,
			"'' eth0 tx 110000", "'' eth0 rx 5000", "'' port tx 110000",
		),
		viewtest.Answer(t, "net.device.info by netns,device,kind", measure.Level, false),
		viewtest.Answer(
			t, "net.device.address by netns,device,address", measure.Level, false,
			"'' eth0 10.0.0.1 1",
		),
	)
	viewtest.Expect(
		t,
		viewtest.Text(
			Flows().Table(view.Options{"by": {"port"}}, f), "port", "rx_bytes_per_s",
			"tx_bytes_per_s", "rtt_ns", "delivery_bits_per_s", "connections", "residual",
		),
		`5201 0 0.8 - - 1 no
2049 0 0.02 3 9 2 no
- 0.04 0.06 - - - yes`,
	)
	tab := Flows().Table(view.Options{"by": {"process"}}, f)
	viewtest.Expect(
		t,
		viewtest.Text(tab, "process", "pid", "share", "retransmits_per_s", "residual"),
		`iperf3 77 87 7 no
[kernel] 1 2.6 0 no
- - 10.4 - yes`,
	)
	if c := tab.Rows[0].Cells[tab.Column("netns")]; c.Kind != view.IsNull {
		t.Errorf("the namespace of a process's connections together: %+v", c)
	}
	if c := Flows().Table(view.Options{}, f).Rows[0].Cells[tab.Column("netns")]; c.Kind != view.IsText ||
		c.Text != "" {
		t.Errorf("the namespace of a connection: %+v", c)
	}
}

// A connection between two addresses of this host goes over the loopback, whichever addresses they
// are.
func TestFlowsOfAnInterface(t *testing.T) {
	f := viewtest.Frame(
		viewtest.Answer(
			t, "tcp.flow.bytes by "+flowFields+",direction", measure.Delta, true,
			"'' 10.0.0.1 1000 10.0.0.1 80 7 inner client tx 5e6",
			"'' 127.0.0.1 1001 127.0.0.2 81 8 loop client tx 3e6",
			"'' 10.0.0.1 1002 10.0.0.2 82 9 outer client tx 1e6",
			"ns 10.0.0.1 1003 10.0.0.2 82 10 other client tx 4e6",
		),
		viewtest.Answer(
			t, "net.device.bytes by netns,device,direction", measure.Delta, false, "'' eth0 tx 1e6",
			"'' lo tx 8e6", "ns eth0 tx 4e6",
		),
		viewtest.Answer(
			t, "net.device.info by netns,device,kind", measure.Level, false, "'' lo loopback 1",
			"'' eth0 ethernet 1", "ns eth0 ethernet 1",
		),
		viewtest.Answer(
			t, "net.device.address by netns,device,address", measure.Level, false,
			"'' eth0 10.0.0.1 1", "'' lo 127.0.0.1 1", "ns eth0 10.0.0.1 1", "ns lo 10.0.0.2 1",
		),
	)
	for devices, want := range map[string]string{"eth0": "outer 8 no\n- 32 yes", "lo": "inner 40 no\nloop 24 no\n- 0 yes"} {
		viewtest.Expect(
			t,
			viewtest.Text(
				Flows().Table(view.Options{"interface": {devices}}, f), "process", "tx_bytes_per_s",
				"residual",
			),
			want,
		)
	}
}

// What a VLAN moved the device below moved as well, and is counted once where both have addresses.
func TestFlowsCountDevicesOnTopOnce(t *testing.T) {
	f := viewtest.Frame(
		viewtest.Answer(
			t, "tcp.flow.bytes by "+flowFields+",direction", measure.Delta, true,
			"'' 10.5.0.1 1000 10.5.0.2 80 7 x client tx 5e6",
			"ns 10.6.0.1 1000 10.5.0.2 80 8 y client tx 2e6",
			"'' 10.7.0.1 1000 10.7.0.2 80 7 z client tx 1e6",
		),
		viewtest.Answer(
			t, "net.device.bytes by netns,device,direction", measure.Delta, false, "'' eth0 tx 9e6",
			"'' eth0.5 tx 5e6", "ns mv0 tx 2e6", "'' br1 tx 1e6", "'' eth1 tx 1e6",
			"'' eth1.7 tx 1e6",
		),
		viewtest.Answer(
			t, "net.device.info by netns,device,kind,lower", measure.Level, false,
			"'' eth0 ethernet '' 1", "'' eth0.5 vlan eth0 1", "ns mv0 macvlan eth0@ 1",
			"'' br1 bridge '' 1", "'' eth1 ethernet '' 1", "'' eth1.7 vlan eth1 1",
		),
		viewtest.Answer(
			t, "net.device.address by netns,device,address", measure.Level, false,
			"'' eth0 10.0.0.1 1", "'' eth0 fe80::1 1", "'' eth0.5 10.5.0.1 1", "ns mv0 10.6.0.1 1",
			"'' br1 10.7.0.1 1",
		),
	)
	viewtest.Expect(
		t, viewtest.Text(Flows().Table(view.Options{}, f), "process", "tx_bytes_per_s", "share"),
		"x 40 50\ny 16 20\nz 8 10\n- 16 20",
	)
	viewtest.Expect(
		t,
		viewtest.Text(
			Flows().Table(view.Options{"interface": {"eth0.5"}}, f), "process", "tx_bytes_per_s",
			"share",
		),
		"x 40 100\n- 0 0",
	)
}

// UDP rows are among those of TCP, by their bytes, and are no residual.
func TestFlowsOfUDP(t *testing.T) {
	o := view.Options{"udp": {""}}
	f := viewtest.Frame(
		viewtest.Answer(t, "tcp.flow.bytes by "+flowFields+",direction", measure.Delta, true,
			"'' 10.0.0.1 40000 10.0.0.2 5201 77 iperf3 client tx 100000"),
		viewtest.Answer(t, "udp.flow.bytes by "+udpFields+",direction", measure.Delta, true,
			"'' 10.0.0.1 5000 10.0.0.7 53 91 dig tx 3000",
			"'' 10.0.0.1 5000 10.0.0.7 53 91 dig rx 250000",
			"ns 0.0.0.0 53 0.0.0.0 0 92 named rx 7000",
			"other 0.0.0.0 54 0.0.0.0 0 93 hidden rx 9000"),
		viewtest.Answer(t, "udp.flow.packets by "+udpFields+",direction", measure.Delta, true,
			"'' 10.0.0.1 5000 10.0.0.7 53 91 dig tx 30",
			"'' 10.0.0.1 5000 10.0.0.7 53 91 dig rx 200",
			"ns 0.0.0.0 53 0.0.0.0 0 92 named rx 70",
			"other 0.0.0.0 54 0.0.0.0 0 93 hidden rx 90"),
		viewtest.Answer(t, "net.device.bytes by netns,device,direction", measure.Delta, false,
			"'' eth0 tx 110000", "'' eth0 rx 300000"),
		viewtest.Answer(t, "net.device.info by netns,device,kind", measure.Level, false,
			"'' eth0 physical 1", "ns eth0 physical 1"),
		viewtest.Answer(t, "net.device.address by netns,device,address", measure.Level, false,
			"'' eth0 10.0.0.1 1"),
	)
	columns := []string{"process", "peer", "peer_port", "protocol", "rx_bytes_per_s",
		"tx_bytes_per_s", "rx_packets_per_s", "tx_packets_per_s"}
	viewtest.Expect(t, viewtest.Text(Flows().Table(o, f), columns...), `dig 10.0.0.7 53 udp 2 0.02 200 30
iperf3 10.0.0.2 5201 tcp 0 0.8 - -
named - - udp 0.06 0 70 0
- - - - 0.34 0.06 - -`)
	o["by"] = []string{"port"}
	viewtest.Expect(t, viewtest.Text(Flows().Table(o, f), "port", "protocol", "rx_packets_per_s",
		"connections"), `53 udp 270 2
5201 tcp - 1
- - - -`)
	o["by"], o["interface"] = []string{"process"}, []string{"eth0"}
	viewtest.Expect(t, viewtest.Text(Flows().Table(o, f), "process", "rx_packets_per_s"), `dig 200
iperf3 -
- -`)
}
