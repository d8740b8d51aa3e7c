package classic

import (
	"slices"
	"strings"

	"culprit/measure"
	"culprit/view"
)

// TCP returns the tool tcp, like nicstat -t and -u, with the error counters of netstat -s.
func TCP() *view.Tool {
	return &view.Tool{
		Name:  "tcp",
		Short: "TCP and UDP segments, retransmits, resets, connections and listen drops (nicstat -t -u)",
		Long: `One line per interval for all TCP or UDP traffic of the network namespace, IPv4 and IPv6 together
where the kernel counts them together.
rKB/s and wKB/s are IP bytes. %ReTX is retransmitted segments as a share of those sent. InConn and
OutCon are connections accepted and opened. Ovfl counts connections refused because a listener's
queue was full. Drops counts those that a listener dropped for any reason, Ovfl included.
--wide adds resets, out-of-order and lost segments, IP packets and fragments, and sockets (sar -n
TCP,ETCP,IP,SOCK). -a lists every counter of the kernel that changed, by name, like nstat.`,
		Examples: []view.Example{
			{Line: "culprit tcp 1", Means: "every second"},
			{Line: "culprit tcp -u 1", Means: "UDP datagrams and their errors"},
			{
				Line:  "culprit tcp -a 5 1",
				Means: "every protocol counter that changed in five seconds",
			},
		},
		Flags: []view.Flag{
			{Name: "udp", Letter: "u", Help: "UDP instead of TCP"},
			{Name: "all", Letter: "a", Help: "every counter that changed (nstat)"},
		},
		Ask: func(view.Options) []string {
			return []string{
				"net.protocol.events by netns,protocol,counter",
				"net.protocol.bytes by netns,protocol,counter",
				"net.protocol.level by netns,protocol,counter",
				"net.sockets by netns,protocol,state",
				"net.sockets.memory by netns,protocol",
			}
		},
		MinWidth: map[measure.StatID]int{"net.sockets": 240, "net.sockets.memory": 240},
		Table:    tcpTable,
		Drill:    func(*view.Table, *view.Row) *view.Drill { return &view.Drill{Tool: "flows", Title: "connections"} },
	}
}

func tcpTable(o view.Options, f *view.Frame) *view.Table {
	events, bytes := f.Of("net.protocol.events"), f.Of("net.protocol.bytes")
	if o.Has("all") {
		return counterTable(events, bytes)
	}
	t := f.NewTable("tcp", func() []view.Column { return nil })
	t.Columns = append(
		t.Columns, view.Column{Name: "netns", Help: "network namespace, empty for the tool's own"},
	)
	namespaces, levels := namespacesOf(events), f.Of("net.protocol.level")
	if len(namespaces) > 1 {
		t.Columns[0].Head, t.Columns[0].Left = "netns", true
	}
	type col struct {
		view.Column
		value func(get func(string) float64) float64
	}
	c := func(name, head string, width, from int, help string, names ...string) col {
		return col{
			view.Column{
				Name:     name,
				Head:     head,
				Width:    width,
				Decimals: 2,
				MinWidth: from,
				Help:     help,
			},
			func(get func(string) float64) float64 {
				sum := measure.NaN
				for _, n := range names {
					if v := get(n); v == v {
						sum = orZero(sum) + v
					}
				}
				return sum
			},
		}
	}
	var cols []col
	if o.Has("udp") {
		cols = []col{
			c(
				"in_datagrams_per_s", "InDG", 9, 0, "datagrams received", "Udp.InDatagrams",
				"Udp6.InDatagrams",
			),
			c(
				"out_datagrams_per_s", "OutDG", 9, 0, "datagrams sent", "Udp.OutDatagrams",
				"Udp6.OutDatagrams",
			),
			c(
				"in_errors_per_s", "InErr", 8, 0, "datagrams that could not be delivered",
				"Udp.InErrors", "Udp6.InErrors",
			),
			c(
				"receive_buffer_errors_per_s", "RcvBuf", 8, 0,
				"dropped: the socket's receive buffer was full", "Udp.RcvbufErrors",
				"Udp6.RcvbufErrors",
			),
			c(
				"send_buffer_errors_per_s", "SndBuf", 8, 0, "not sent: the send buffer was full",
				"Udp.SndbufErrors", "Udp6.SndbufErrors",
			),
			c(
				"no_port_per_s", "NoPort", 8, 0, "for a port without a listener", "Udp.NoPorts",
				"Udp6.NoPorts",
			),
			c(
				"checksum_errors_per_s", "CsumErr", 8, 0, "wrong checksum", "Udp.InCsumErrors",
				"Udp6.InCsumErrors",
			),
		}
	} else {
		kb := c(
			"rx_bytes_per_s", "rKB/s", 8, 0, "IP bytes received",
			"IpExt.InOctets", "Ip6.InOctets",
		)
		kb.Show = view.KiB
		kb2 := c(
			"tx_bytes_per_s", "wKB/s", 8, 0, "IP bytes sent",
			"IpExt.OutOctets", "Ip6.OutOctets",
		)
		kb2.Show = view.KiB
		retxColumn := view.Column{
			Name: "retransmit_ratio", Head: "%ReTX", Show: view.Percent, Decimals: 3, Width: 6,
			Help: "retransmitted share of the segments sent",
		}
		retx := col{retxColumn, func(get func(string) float64) float64 {
			out := get("Tcp.OutSegs")
			if out == 0 {
				return 0
			}
			return get("Tcp.RetransSegs") / out
		}}
		cols = []col{kb, kb2,
			c("in_segments_per_s", "InSeg", 7, 0, "segments received", "Tcp.InSegs"),
			c(
				"out_segments_per_s", "OutSeg", 7, 0, "segments sent, without retransmits",
				"Tcp.OutSegs",
			),
			c(
				"resets_per_s", "Reset", 5, 0, "connections reset and resets sent",
				"Tcp.EstabResets", "Tcp.OutRsts",
			),
			c(
				"attempt_fails_per_s", "AttF", 4, 0, "connection attempts that failed",
				"Tcp.AttemptFails",
			),
			retx,
			c("passive_opens_per_s", "InConn", 6, 0, "connections accepted", "Tcp.PassiveOpens"),
			c("active_opens_per_s", "OutCon", 6, 0, "connections opened", "Tcp.ActiveOpens"),
			c(
				"listen_drops_per_s", "Drops", 5, 0, "connections dropped by listeners",
				"TcpExt.ListenDrops",
			),
			c(
				"listen_overflows_per_s", "Ovfl", 5, 100, "of these: the listener's queue was full",
				"TcpExt.ListenOverflows",
			),
			c("retransmits_per_s", "ReTX/s", 7, 100, "segments sent again", "Tcp.RetransSegs"),
			c(
				"timeouts_per_s", "RTO/s", 6, 110, "retransmission timers that ran out",
				"TcpExt.TCPTimeouts",
			),
			c(
				"fast_retransmits_per_s", "FastRx", 6, 120, "retransmits before the timer",
				"TcpExt.TCPFastRetrans",
			),
			c("in_errors_per_s", "InErr", 6, 120, "segments received in error", "Tcp.InErrs"),
			c(
				"resets_in_use_per_s", "EstRst", 6, 150,
				"established connections that were reset (sar's estres)",
				"Tcp.EstabResets",
			),
			c("resets_sent_per_s", "OutRst", 6, 150, "resets sent", "Tcp.OutRsts"),
			c(
				"syn_retransmits_per_s", "SynRe", 6, 170, "connection requests sent again",
				"TcpExt.TCPSynRetrans",
			),
			c(
				"lost_retransmits_per_s", "LostRe", 6, 170, "retransmits that were lost",
				"TcpExt.TCPLostRetransmit",
			),
			c(
				"out_of_order_per_s", "OFO", 6, 170, "segments that arrived out of order",
				"TcpExt.TCPOFOQueue",
			),
			c(
				"pruned_per_s", "Prune", 6, 190,
				"times that a socket dropped received segments because its buffer was full",
				"TcpExt.PruneCalled", "TcpExt.OfoPruned", "TcpExt.RcvPruned",
			),
			c(
				"ip_received_per_s", "InIP", 8, 210, "IP packets received",
				"Ip.InReceives", "Ip6.InReceives",
			),
			c(
				"ip_sent_per_s", "OutIP", 8, 210, "IP packets sent",
				"Ip.OutRequests", "Ip6.OutRequests",
			),
			c(
				"ip_forwarded_per_s", "FwdIP", 8, 210, "IP packets forwarded",
				"Ip.ForwDatagrams", "Ip6.OutForwDatagrams",
			),
			c(
				"fragments_received_per_s", "InFrag", 6, 230, "IP fragments received",
				"Ip.ReasmReqds", "Ip6.ReasmReqds",
			),
			c(
				"fragments_sent_per_s", "OutFrg", 6, 230, "IP fragments sent",
				"Ip.FragCreates", "Ip6.FragCreates",
			),
		}
	}
	for _, k := range cols {
		t.Columns = append(t.Columns, k.Column)
	}
	if !o.Has("udp") {
		t.Columns = append(
			t.Columns,
			view.Column{
				Name:     "established",
				Head:     "Estab",
				Width:    6,
				MinWidth: 130,
				Help:     "connections now",
			},
		)
		t.Columns = append(
			t.Columns,
			view.Column{
				Name:     "sockets",
				Head:     "InUse",
				Width:    6,
				MinWidth: 240,
				Help:     "TCP sockets in use",
			},
			view.Column{
				Name:     "time_wait",
				Head:     "TW",
				Width:    6,
				MinWidth: 240,
				Help:     "connections in TIME_WAIT",
			},
			view.Column{
				Name:     "orphans",
				Head:     "Orphan",
				Width:    6,
				MinWidth: 240,
				Help:     "connections without a process, of the whole machine",
			},
			view.Column{
				Name:     "socket_bytes",
				Head:     "SockKB",
				Show:     view.KiB,
				Width:    8,
				MinWidth: 240,
				Help:     "buffers of all TCP sockets of the machine",
			},
		)
	}
	for _, ns := range namespaces {
		var array [40]view.Cell // on the stack
		cells := append(array[:0], view.T(ns))
		get := func(name string) float64 {
			if v := f.Counter(events, ns, name); v == v { // older recordings have bytes too
				return v
			}
			return f.Counter(bytes, ns, name)
		}
		for _, k := range cols {
			cells = append(cells, view.N(k.value(get)))
		}
		if !o.Has("udp") {
			sockets := func(id measure.StatID, where ...string) view.Cell {
				return view.N(f.One(id, append(where, "netns", ns)...))
			}
			cells = append(
				cells,
				view.N(f.Counter(levels, ns, "Tcp.CurrEstab")),
				view.N(
					sum(
						f.One("net.sockets", "protocol", "TCP", "state", "inuse", "netns", ns),
						f.One("net.sockets", "protocol", "TCP6", "state", "inuse", "netns", ns),
					),
				),
				sockets("net.sockets", "protocol", "TCP", "state", "tw"),
				sockets("net.sockets", "protocol", "TCP", "state", "orphan"),
				sockets("net.sockets.memory", "protocol", "TCP"),
			)
		}
		t.Rows = append(t.Rows, view.Row{Key: ns, Cells: f.CopyCells(cells...)})
	}
	return t
}

// namespacesOf returns the namespaces of protocol counters, sorted.
func namespacesOf(a *measure.Answer) []string {
	var namespaces []string
	for i := range a.Series {
		if ns := a.LabelOf(i, "netns"); !slices.Contains(namespaces, ns) {
			namespaces = append(namespaces, ns)
		}
	}
	slices.SortFunc(namespaces, strings.Compare)
	return namespaces
}

func counterTable(answers ...*measure.Answer) *view.Table {
	t := &view.Table{
		View: "tcp",
		Columns: []view.Column{
			{Name: "netns", Help: "network namespace"},
			{
				Name:  "counter",
				Head:  "Counter",
				Width: 32,
				Left:  true,
				Help:  "protocol and the kernel's name",
			},
			{Name: "per_s", Head: "per second", Decimals: 2, Width: 14, Help: "events, or bytes, per second"},
		},
	}
	for _, a := range answers {
		for i, s := range a.Series {
			if s.Values[0] == 0 {
				continue
			}
			name := a.LabelOf(i, "protocol") + "." + a.LabelOf(i, "counter")
			ns := a.LabelOf(i, "netns")
			label := ""
			if ns != "" {
				label = ns + "/" + name
			}
			t.Rows = append(
				t.Rows,
				view.Row{
					Key:   ns + " " + name,
					Label: label,
					Cells: []view.Cell{view.T(ns), view.T(name), view.N(s.Values[0])},
				},
			)
		}
	}
	slices.SortFunc(t.Rows, func(a, b view.Row) int { return strings.Compare(a.Key, b.Key) })
	return t
}
