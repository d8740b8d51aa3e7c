package classic

import (
	"strings"

	"culprit/measure"
	"culprit/view"
)

// flowFields are the fields that identify a TCP connection, in the order of the statistics.
const flowFields = "netns,local,localport,peer,peerport,pid,process,side"

// Flows returns the tool flows, like iftop and nethogs.
func Flows() *view.Tool {
	by := []string{"connection", "client", "peer", "pair", "port", "process"}
	return &view.Tool{
		Name:  "flows",
		Short: "TCP and UDP traffic by connection, host, port or process, with RTT and retransmits (iftop, nethogs)",
		Long: `One row per TCP connection that moved bytes, busiest first, from the kernel's own counters
(sock_diag). --by adds connections up by peer host (client is the same), host pair, service port or
process. rx and tx are payload that arrived and that was acknowledged. RTT is the kernel's smoothed
round-trip time, the mean of a group; deliv is the kernel's estimate of the rate at which the path
delivered, the highest of a group. %Link is the share of the traffic of the interfaces that the
connections can use.
--udp adds UDP, with datagrams per second. The kernel does not count it by socket, so a BPF program
does, from Linux 6.3, with root or CAP_BPF and CAP_PERFMON. A socket that is not connected has no
peer; by port it counts for its own port, others for the lower one of both.
The last row is the residual: what the interfaces counted and no connection accounts for. It
consists of headers, acknowledgements, UDP without --udp, other protocols, retransmits, forwarded packets, and
connections that ended within the interval. It is never below 0: bytes that an interface counts in
one interval may be acknowledged in the next. If connections exceed the interfaces by no more than
that explains, the residual is 0; if by more, it is unknown, and a note says so.`,
		Examples: []view.Example{
			{Line: "culprit flows 1", Means: "the busiest connections"},
			{
				Line:  "culprit flows --by process 1",
				Means: "by process (nethogs), with the residual of the interfaces",
			},
			{
				Line:  "culprit flows --by client -n 0 10 6",
				Means: "all clients, averaged over ten seconds",
			},
		},
		Operand: "interface",
		Flags: []view.Flag{
			{
				Name:       "interface",
				Letter:     "i",
				Value:      "NAME",
				Many:       true,
				NamesQuery: "net.device.info by device",
				Help: "only connections from the addresses of these interfaces " +
					"(comma list with * and ?); connections within this host belong to lo",
			},
			{
				Name:       "pid",
				Letter:     "p",
				Value:      "PID",
				Many:       true,
				NamesQuery: "process.state by pid",
				Help:       "only connections of these processes (comma list)",
			},
			{
				Name:  "peer",
				Value: "ADDRESS",
				Many:  true,
				Help:  "only connections with these hosts (comma list with * and ?)",
			},
			{Name: "by", Letter: "b", Value: "WHAT", Values: by, Help: "add up connections by"},
			{Name: "udp", Letter: "u", Help: "also UDP, measured by a BPF program"},
		},
		MaxRows: 20,
		Ask: func(o view.Options) []string {
			fields := flowFields
			if by := o.Text("by"); by != "" && by != "process" && by != "connection" &&
				!o.Has("pid") {
				// To find owners, all of /proc is read.
				fields = "netns,local,localport,peer,peerport,side"
			}
			out := []string{
				"tcp.flow.bytes by " + fields + ",direction",
				"tcp.flow.retransmits by " + fields,
				"tcp.flow.rtt by " + fields,
				"tcp.flow.delivery by " + fields,
				"net.device.bytes by netns,device,direction",
				"net.device.info by netns,device,kind,lower",
				"net.device.address by netns,device,address",
			}
			if o.Has("udp") {
				out = append(out, udpQueries(o)...)
			}
			return out
		},
		Table: flowsTable,
		// An absent connection counts as 0 in a mean. So must an absent device, or the residual
		// would contain bytes of its connections.
		Sums: []measure.StatID{"net.device.bytes"},
		Drill: func(t *view.Table, r *view.Row) *view.Drill {
			switch pid, peer := t.Text(r, "pid"), t.Text(r, "peer"); {
			case t.Text(r, "local_port") != "" || r.Total:
				return nil
			case pid != "":
				return &view.Drill{
					Tool:    "flows",
					Options: view.Options{"pid": {pid}},
					Title:   "connections of " + t.Text(r, "process") + " (" + pid + ")",
				}
			case peer != "":
				return &view.Drill{
					Tool:    "flows",
					Options: view.Options{"peer": {peer}},
					Title:   "connections with " + peer,
				}
			}
			return nil
		},
	}
}

func flowsTable(o view.Options, f *view.Frame) *view.Table {
	by := o.Text("by")
	t := &view.Table{View: "flows"}
	group := map[string][]string{
		"": nil, "connection": nil, "client": {"peer"}, "peer": {"peer"}, "pair": {"local", "peer"},
		"port": {"port"}, "process": {"pid", "process"},
	}[by]
	whole := group == nil
	if whole {
		group = strings.Split(flowFields, ",")
	}
	has := func(name string) bool {
		for _, g := range group {
			if g == name {
				return true
			}
		}
		return false
	}
	head := func(show bool, h string) string {
		if show {
			return h
		}
		return ""
	}
	localFrom, packetsFrom, shareFrom, wider := 0, 0, 0, 0
	if whole && o.Has("udp") { // the line also has the protocol and datagrams
		packetsFrom, shareFrom, wider = 104, 86, 24
	}
	if whole { // the line also has both ports and the peer
		localFrom = 100 + wider
	}
	t.Columns = []view.Column{
		{Name: "residual", Help: "true in the row of traffic that no connection accounts for"},
		{Name: "netns", Help: "network namespace"},
		{
			Name:  "process",
			Head:  head(has("process"), "Process"),
			Width: 12,
			Left:  true,
			Cut:   true,
			Help:  "owner of the socket",
		},
		{Name: "pid", Head: head(has("pid"), "PID"), Width: 7, Help: "its process id"},
		{
			Name:     "local",
			Head:     head(has("local"), "Local"),
			Width:    14,
			Left:     true,
			MinWidth: localFrom,
			Help:     "local address",
		},
		{Name: "local_port", Head: head(whole, "lport"), Width: 5, Help: "local port"},
		{
			Name:  "peer",
			Head:  head(has("peer"), "Peer"),
			Width: 14,
			Left:  true,
			Help:  "remote address",
		},
		{Name: "peer_port", Head: head(whole, "rport"), Width: 5, Help: "remote port"},
		{
			Name:  "port",
			Head:  head(has("port"), "Port"),
			Width: 6,
			Help:  "port of the service: the listener's",
		},
		{
			Name:  "protocol",
			Head:  head(o.Has("udp"), "Prot"),
			Width: 4,
			Left:  true,
			Help:  "tcp, or with --udp udp",
		},
		{
			Name:     "rx_bytes_per_s",
			Head:     "rx Mb/s",
			Show:     view.MbitOfB,
			Decimals: 2,
			Width:    8,
			Help:     "payload received",
		},
		{
			Name:     "tx_bytes_per_s",
			Head:     "tx Mb/s",
			Show:     view.MbitOfB,
			Decimals: 2,
			Width:    8,
			Help:     "payload sent and acknowledged",
		},
		{
			Name:     "rx_packets_per_s",
			Head:     head(o.Has("udp"), "rx pk/s"),
			Decimals: 0,
			Width:    8,
			MinWidth: packetsFrom,
			Help:     "datagrams received, of UDP only",
		},
		{
			Name:     "tx_packets_per_s",
			Head:     head(o.Has("udp"), "tx pk/s"),
			Decimals: 0,
			Width:    8,
			MinWidth: packetsFrom,
			Help:     "datagrams sent, of UDP only",
		},
		{
			Name:     "rtt_ns",
			Head:     "RTT ms",
			Show:     view.Millis,
			Decimals: 3,
			Width:    7,
			MinWidth: 100 + wider,
			Help:     "smoothed round trip time",
		},
		{
			Name:     "retransmits_per_s",
			Head:     "retr/s",
			Decimals: 1,
			Width:    6,
			MinWidth: 100 + wider,
			Help:     "segments sent again",
		},
		{
			Name:     "delivery_bits_per_s",
			Head:     "deliv Mb/s",
			Show:     view.Mbit,
			Decimals: 1,
			Width:    10,
			MinWidth: 120 + wider,
			Help:     "the kernel's estimate of the path's delivery rate",
		},
		{
			Name:     "share",
			Head:     "%Link",
			Show:     view.Percent,
			Decimals: 1,
			Width:    5,
			MinWidth: shareFrom,
			Help:     "share of the traffic of the interfaces",
		},
		{
			Name:  "connections",
			Head:  head(!whole, "conn"),
			Width: 5,
			Help:  "connections that moved bytes",
		},
	}

	filtered := func(id measure.StatID) *measure.Answer {
		a := filterConnections(f.Of(id), o, f)
		if has("port") { // it copies each row
			a = withPort(a)
		}
		return a
	}
	bytes := filtered("tcp.flow.bytes")
	p := f.NewPivot(group...)
	rx, tx := p.Add(bytes, "direction", "rx"), p.Add(bytes, "direction", "tx")
	retransmits := p.Add(filtered("tcp.flow.retransmits"))
	value := func(r, c int) float64 { return orZero(p.At(r, c)) }
	p.SortBy(func(r int) float64 { return sum(p.At(r, rx), p.At(r, tx)) }, f.MaxRows)
	rtt := p.Folded(measure.Mean, filtered("tcp.flow.rtt"))
	delivery := p.Folded(measure.Max, filtered("tcp.flow.delivery"))
	counts := p.Distinct(bytes, "netns", "local", "localport", "peer", "peerport")

	rxAll, txAll := linkBytes(f, o["interface"])
	sumRx, sumTx := 0.0, 0.0
	cell := func(p *view.Pivot, r int, name string) view.Cell {
		if !has(name) {
			return view.Cell{Kind: view.IsNull}
		}
		return view.TOrNull(p.Key(r, name))
	}
	// "" is our own namespace; grouped rows may be of several
	space := func(p *view.Pivot, r int) view.Cell {
		if !has("netns") {
			return view.Cell{Kind: view.IsNull}
		}
		return view.T(p.Key(r, "netns"))
	}
	number := func(p *view.Pivot, r int, name string) view.Cell {
		if !has(name) {
			return view.Cell{Kind: view.IsNull}
		}
		return view.I(p.Key(r, name))
	}
	for r := range p.Len() {
		a, b := value(r, rx), value(r, tx)
		sumRx, sumTx = sumRx+p.At(r, rx), sumTx+p.At(r, tx)
		if a+b == 0 && p.At(r, retransmits) == 0 {
			continue
		}
		if f.MaxRows > 0 && len(t.Rows) > f.MaxRows {
			continue // counted in the sums only
		}
		t.Rows = append(
			t.Rows,
			view.Row{
				Key: p.ID(r),
				Cells: []view.Cell{
					view.B(false),
					space(p, r),
					cell(p, r, "process"),
					number(p, r, "pid"),
					cell(p, r, "local"),
					number(p, r, "localport"),
					cell(p, r, "peer"),
					number(p, r, "peerport"),
					number(p, r, "port"),
					view.T("tcp"),
					view.N(p.At(r, rx)),
					view.N(p.At(r, tx)),
					{Kind: view.IsNull},
					{Kind: view.IsNull},
					view.N(rtt(r)),
					view.N(p.At(r, retransmits)),
					view.N(delivery(r)),
					view.N(sum(p.At(r, rx), p.At(r, tx)) / (rxAll + txAll)),
					view.N(float64(counts(r))),
				},
			},
		)
	}
	if o.Has("udp") {
		null := view.Cell{Kind: view.IsNull}
		udpRx, udpTx := addUDP(t, o, f, group, func(p *view.Pivot, r int, c udpCells) []view.Cell {
			peer, peerPort := cell(p, r, "peer"), number(p, r, "peerport")
			if unconnected(peer.Text) {
				peer, peerPort = null, null
			}
			return []view.Cell{
				view.B(false), space(p, r), cell(p, r, "process"), number(p, r, "pid"),
				cell(p, r, "local"), number(p, r, "localport"), peer, peerPort,
				number(p, r, "port"), view.T("udp"), view.N(c.rx), view.N(c.tx),
				view.N(c.rxPackets), view.N(c.txPackets), null, null, null,
				view.N(sum(c.rx, c.tx) / (rxAll + txAll)), view.N(c.sockets),
			}
		})
		sumRx, sumTx = sumRx+udpRx, sumTx+udpTx
		sortByBytes(t, f.MaxRows)
	}
	if len(o["pid"]) == 0 && len(o["peer"]) == 0 {
		over := bytes.Elapsed[0]
		addResidual(t, residualOf(rxAll, sumRx, over), residualOf(txAll, sumTx, over), rxAll+txAll)
	}
	return t
}

// residual is the part of a whole that none of its parts accounts for.
type residual struct {
	value   float64 // per second, at least 0; NaN: unknown
	clamped bool    // the parts exceed the whole by no more than late counting explains: value is 0
	over    bool    // the parts exceed the whole by more: value is NaN
}

// residualOf returns the bytes per second that interfaces moved and no connection accounts for.
// Bytes count on an interface when they pass, and for a connection when they are acknowledged. So
// connections may exceed the interfaces by the bytes of a 20th of the interval and ackLag.
func residualOf(whole, parts float64, over measure.Span) residual {
	const ackLag = 50 * measure.Millisecond
	left := whole - parts
	switch {
	case left != left || left >= 0:
		return residual{value: left}
	case over > 0 && -left <= parts*float64(over/20+ackLag)/float64(over):
		return residual{clamped: true}
	}
	return residual{value: measure.NaN, over: true}
}

// addResidual adds the residual row, with a note if it is not the plain difference. all is the
// bytes per second of the interfaces in both directions.
func addResidual(t *view.Table, rx, tx residual, all float64) {
	cells := make([]view.Cell, len(t.Columns))
	for i := range cells {
		cells[i] = view.Cell{Kind: view.IsNull}
	}
	cells[t.Column("residual")] = view.B(true)
	cells[t.Column("rx_bytes_per_s")], cells[t.Column("tx_bytes_per_s")] = view.N(
		rx.value,
	), view.N(
		tx.value,
	)
	cells[t.Column("share")] = view.N((rx.value + tx.value) / all)
	t.Rows = append(
		t.Rows, view.Row{Key: "residual", Total: true, Cells: cells, Label: "(residual)"},
	)
	if rx.clamped || tx.clamped {
		t.Notes = append(
			t.Notes,
			"residual 0: connections moved slightly more than the interfaces counted, "+
				"since bytes are acknowledged shortly after they pass",
		)
	}
	if rx.over || tx.over {
		t.Notes = append(
			t.Notes,
			"residual unknown: connections moved more than the interfaces counted, "+
				"and late acknowledgements do not explain it",
		)
	}
}

// linkBytes returns the bytes per second that the interfaces with addresses received and sent.
// Those are the ones that connections of this host can use. Each packet counts once, and not again
// in the bridge port or VLAN parent below.
//
// If the device below has an address too, its count includes those of the devices on top of it.
// They exceed it only if macvlans talk to each other, which bypasses the device below. Then their
// sum counts.
func linkBytes(f *view.Frame, only []string) (rx, tx float64) {
	type device struct{ netns, name string }
	moved := map[device][2]float64{}
	a := f.Of("net.device.address")
	for i := range a.Series {
		if len(only) > 0 && !view.MatchAny(only, a.LabelOf(i, "device")) {
			continue
		}
		moved[device{a.LabelOf(i, "netns"), a.LabelOf(i, "device")}] = [2]float64{}
	}
	b := f.Of("net.device.bytes")
	for i, s := range b.Series {
		d, direction := device{b.LabelOf(i, "netns"), b.LabelOf(i, "device")}, 0
		if b.LabelOf(i, "direction") != "rx" {
			direction = 1
		}
		if m, holds := moved[d]; holds && s.Values[0] == s.Values[0] {
			m[direction] += s.Values[0]
			moved[d] = m
		}
	}

	info := f.Of("net.device.info")
	devices := map[device]bool{}
	for i := range info.Series {
		devices[device{info.LabelOf(i, "netns"), info.LabelOf(i, "device")}] = true
	}
	onTop, hasLower := map[device][]device{}, map[device]bool{}
	for i := range info.Series {
		kind, lower := info.LabelOf(i, "kind"), info.LabelOf(i, "lower")
		// The lower device of the last three kinds is the peer.
		if lower == "" || kind == "veth" || kind == "netkit" || kind == "vxcan" {
			continue
		}
		under := device{info.LabelOf(i, "netns"), lower}
		// device@namespace is in another namespace.
		if at := strings.LastIndexByte(lower, '@'); !devices[under] && at >= 0 {
			under = device{lower[at+1:], lower[:at]}
		}
		if upper := (device{info.LabelOf(i, "netns"), info.LabelOf(i, "device")}); devices[under] {
			onTop[under], hasLower[upper] = append(onTop[under], upper), true
		}
	}
	var whole func(d device, depth int) [2]float64
	whole = func(d device, depth int) [2]float64 {
		var above [2]float64
		for _, u := range onTop[d] {
			if depth < 8 { // the kernel allows no deeper nesting (MAX_NEST_DEV)
				m := whole(u, depth+1)
				above = [2]float64{above[0] + m[0], above[1] + m[1]}
			}
		}
		m := moved[d]
		return [2]float64{max(m[0], above[0]), max(m[1], above[1])}
	}
	added := map[device]bool{} // a device may have several rows
	add := func(d device) {
		if !hasLower[d] && !added[d] {
			m := whole(d, 0)
			rx, tx, added[d] = rx+m[0], tx+m[1], true
		}
	}
	for i := range info.Series {
		add(device{info.LabelOf(i, "netns"), info.LabelOf(i, "device")})
	}
	for i := range a.Series { // devices without facts
		add(device{a.LabelOf(i, "netns"), a.LabelOf(i, "device")})
	}
	return rx, tx
}

// filterConnections returns the connections that the flags select.
func filterConnections(a *measure.Answer, o view.Options, f *view.Frame) *measure.Answer {
	if len(o["interface"]) == 0 && len(o["pid"]) == 0 && len(o["peer"]) == 0 {
		return a
	}
	here := map[string]bool{}  // "netns address" -> it is on a selected interface
	loops := map[string]bool{} // netns -> its loopback is selected
	addresses, info := f.Of("net.device.address"), f.Of("net.device.info")
	for i := range addresses.Series {
		at := addresses.LabelOf(i, "netns") + " " + addresses.LabelOf(i, "address")
		here[at] = here[at] || view.MatchAny(o["interface"], addresses.LabelOf(i, "device"))
	}
	for i := range info.Series {
		if info.LabelOf(i, "kind") == "loopback" &&
			view.MatchAny(o["interface"], info.LabelOf(i, "device")) {
			loops[info.LabelOf(i, "netns")] = true
		}
	}
	wanted := func(i int) bool {
		netns, peer := a.LabelOf(i, "netns"), a.LabelOf(i, "peer")
		// Connections within this host pass the loopback, whatever their addresses.
		if _, own := here[netns+" "+peer]; own || strings.HasPrefix(peer, "127.") {
			return loops[netns]
		}
		return here[netns+" "+a.LabelOf(i, "local")]
	}
	b := *a
	b.Series = nil
	b.SetColumn(nil, 0)
	for i, s := range a.Series {
		if len(o["interface"]) > 0 && !wanted(i) ||
			len(o["pid"]) > 0 && !view.MatchAny(o["pid"], a.LabelOf(i, "pid")) ||
			len(o["peer"]) > 0 && !view.MatchAny(o["peer"], a.LabelOf(i, "peer")) {
			continue
		}
		b.Series = append(b.Series, s)
	}
	return &b
}

// withPort returns an answer about connections with the field "port": the local port of a server,
// the peer's port of a client.
func withPort(a *measure.Answer) *measure.Answer {
	side, local, peer := a.FieldIndex("side"), a.FieldIndex("localport"), a.FieldIndex("peerport")
	if side < 0 || local < 0 || peer < 0 {
		return a
	}
	b := *a
	b.Query.By = append(append([]string(nil), a.Query.By...), "port")
	b.Series = make([]measure.Series, len(a.Series))
	b.SetColumn(nil, 0)
	for i, s := range a.Series {
		port := s.Key[peer]
		if a.Label(i, side) == "server" {
			port = s.Key[local]
		}
		b.Series[i] = s
		b.Series[i].Key = append(append([]measure.Label(nil), s.Key...), port)
	}
	return &b
}
