package experiment

import (
	"slices"
	"strings"
	"testing"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/measure"
)

// dropped is a machine that drops packets in many places. Fields are those of Drops.
var dropped = answers{2, map[measure.StatID][]row{"packet.drop.count": {
	{strings.Split(" eth0 ethertype-88b5 0 UNHANDLED_PROTO __netif_receive_skb_core", " "),
		[]float64{30, 50}},
	{strings.Split(" eth0 ethertype-88b6 0 UNHANDLED_PROTO __netif_receive_skb_core", " "),
		[]float64{10, 10}},
	{strings.Split(" eth0 udp 9 PFMEMALLOC sk_filter_trim_cap", " "), []float64{7, 3}},
	{strings.Split(" eth0 udp 9 NO_SOCKET __udp4_lib_rcv", " "), []float64{400, 404}},
	{strings.Split(" eth0 udp 11 NO_SOCKET __udp4_lib_rcv", " "), []float64{150, 150}},
	{strings.Split(" eth0 tcp 11 NO_SOCKET tcp_v4_rcv", " "), []float64{999, 999}},
	{strings.Split("  tcp 80 NETFILTER_DROP nf_hook_slow", " "), []float64{20, 20}},
	{strings.Split("  tcp 80 TCP_OLD_DATA tcp_data_queue", " "), []float64{500, 500}},
	{strings.Split("  udp 53 SOCKET_RCVBUFF udp_queue_rcv_one_skb", " "), []float64{61, 61}},
	{strings.Split("  udp 54 SOCKET_RCVBUFF udp_queue_rcv_one_skb", " "), []float64{39, 39}},
	{strings.Split(" eth1 udp 53 QDISC_OVERLIMIT __dev_queue_xmit", " "), []float64{88, 88}},
	{strings.Split(" eth1 arp 0 NOT_SPECIFIED pfifo_enqueue", " "), []float64{12, 12}},
	{strings.Split(" eth1 arp 0 NEIGH_FAILED arp_error_report", " "), []float64{900, 900}},
	{strings.Split("blue eth1 udp 53 QDISC_OVERLIMIT __dev_queue_xmit", " "), []float64{5e6, 5e6}},
	{strings.Split("blue eth7 udp 7 CPU_BACKLOG enqueue_to_backlog", " "), []float64{33, 33}},
}}, nil}

func dropReport(at facts.DroppedPackets) *diagnose.Report {
	return &diagnose.Report{Findings: []diagnose.Finding{{ID: "x", Claim: "eth0 drops.",
		Subject: at, Against: []string{"other", facts.DropsWithoutReason},
		Evidence: []diagnose.Evidence{{Value: 200}}}}}
}

// TestDrops: the evidence has the causes of the packets that the finding is about, and no others.
func TestDrops(t *testing.T) {
	for _, tt := range []struct {
		name   string
		at     facts.DroppedPackets
		want   []string
		change string
	}{
		{"interface", facts.DroppedPackets{At: facts.DropsAtInterface, Device: "eth0"}, []string{
			"91 % of 55 dropped packets/s: no protocol here takes such frames (UNHANDLED_PROTO in " +
				"__netif_receive_skb_core) (measured)",
			"9.1 % of 55 dropped packets/s: there is little memory, and their socket does not free " +
				"any (PFMEMALLOC in sk_filter_trim_cap), UDP port 9 (measured)"}, ""},
		{"queue", facts.DroppedPackets{At: facts.DropsAtQueue, Device: "eth1"}, []string{
			"88 % of 100 dropped packets/s: the queue is full (QDISC_OVERLIMIT in " +
				"__dev_queue_xmit), UDP port 53 (measured)",
			"12 % of 100 dropped packets/s: in pfifo_enqueue (measured)"}, ""},
		{"backlog", facts.DroppedPackets{At: facts.DropsAtBacklog}, []string{
			"100 % of 33 dropped packets/s: the backlog of a CPU is full (CPU_BACKLOG in " +
				"enqueue_to_backlog), UDP port 7 (measured)"}, ""},
		{"socket", facts.DroppedPackets{At: facts.DropsAtSocket}, []string{
			"100 % of 100 dropped packets/s: the receive buffer of the socket is full " +
				"(SOCKET_RCVBUFF in udp_queue_rcv_one_skb), 61 % of them UDP port 53 (measured)"}, ""},
		{"port", facts.DroppedPackets{At: facts.DropsAtPort}, []string{
			"100 % of 552 dropped packets/s: no socket listens (NO_SOCKET in __udp4_lib_rcv), 73 % " +
				"of them UDP port 9 (measured)"}, ""},
		{"tcp", facts.DroppedPackets{At: facts.DropsOfTCP}, []string{
			"100 % of 20 dropped packets/s: a rule of netfilter (nftables, iptables) drops them " +
				"(NETFILTER_DROP in nf_hook_slow), TCP port 80 (measured)"}, ""},
		{"elsewhere", facts.DroppedPackets{At: facts.DropsAtInterface, NetNS: "red",
			Device: "eth0"}, nil, "no packet was dropped there meanwhile"},
		{"no segment", facts.DroppedPackets{At: facts.DropsOfTCP, NetNS: "blue"}, nil,
			"the kernel here dropped no segments in namespace blue: they are lost on their way"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := dropReport(tt.at)
			p := NewPlan(r)
			if !slices.Equal(p.Queries, []string{Drops}) || len(p.Findings()) != 1 {
				t.Fatalf("queries %q of %q", p.Queries, p.Findings())
			}
			changed, err := p.Apply(t.Context(), dropped)
			if err != nil || len(changed) != 1 {
				t.Fatalf("%q, %v", changed, err)
			}
			e := r.Findings[0].Evidence[1:]
			if tt.change != "" && changed[0] != "x: "+tt.change {
				t.Errorf("changed %q, want %q", changed, tt.change)
			}
			for n, want := range tt.want {
				if n >= len(e) || !strings.HasPrefix(e[n].Text, want) {
					t.Errorf("evidence %+v, want %q", e, want)
				}
			}
			if len(e) != len(tt.want) {
				t.Errorf("evidence %+v", e)
			}
		})
	}
}

// TestDropsClaim: the claim of a finding without a reason gets one, and loses its caveat.
func TestDropsClaim(t *testing.T) {
	r := dropReport(facts.DroppedPackets{At: facts.DropsAtInterface, Device: "eth0"})
	if _, err := NewPlan(r).Apply(t.Context(), dropped); err != nil {
		t.Fatal(err)
	}
	f := &r.Findings[0]
	if f.Claim != "eth0 drops: no protocol here takes such frames." ||
		!slices.Equal(f.Against, []string{"other"}) {
		t.Errorf("%q but %q", f.Claim, f.Against)
	}
	const query = `packet.drop.count by protocol,port where netns = "" and device = "eth0" and ` +
		`reason = "UNHANDLED_PROTO" and location = "__netif_receive_skb_core"`
	if e := f.Evidence[1]; e.Statistic != query || e.Value != 50 || e.ComparedWith != 55 {
		t.Errorf("%+v", e)
	}
}

// TestFewDrops: packets that are dropped here explain retransmits from a tenth of them on.
func TestFewDrops(t *testing.T) {
	for _, tt := range []struct {
		name     string
		again    float64
		evidence int
	}{{"a tenth", 200, 2}, {"less", 201, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			r := dropReport(facts.DroppedPackets{At: facts.DropsOfTCP})
			r.Findings[0].Evidence[0].Value = diagnose.Number(tt.again)
			changed, err := NewPlan(r).Apply(t.Context(), dropped)
			if err != nil || len(r.Findings[0].Evidence) != tt.evidence {
				t.Errorf("%q, %v: %+v", changed, err, r.Findings[0].Evidence)
			}
		})
	}
}
