package classic

import (
	"slices"
	"strconv"

	"culprit/measure"
	"culprit/view"
)

// udpFields are the fields that identify the UDP traffic of a program with a peer.
const udpFields = "netns,local,localport,peer,peerport,pid,process"

// udpQueries returns the queries of UDP traffic. Traced keys cost time for each datagram, so only
// the fields of the rows and of the filters are asked for.
func udpQueries(o view.Options) []string {
	fields := udpFields
	if o.Text("by") == "process" && !o.Has("interface") && !o.Has("peer") {
		fields = "netns,pid,process"
	}
	return []string{
		"udp.flow.bytes by " + fields + ",direction",
		"udp.flow.packets by " + fields + ",direction",
	}
}

// addUDP adds rows of UDP traffic to those of TCP, and returns the bytes per second of all UDP
// traffic. cells makes the cells of a row.
func addUDP(t *view.Table, o view.Options, f *view.Frame, group []string,
	cells func(p *view.Pivot, r int, c udpCells) []view.Cell) (rx, tx float64) {
	filtered := func(id measure.StatID) *measure.Answer {
		a := filterConnections(ofNamespaces(f.Of(id), f), o, f)
		if slices.Contains(group, "port") {
			a = withUDPPort(a)
		}
		return a
	}
	bytes, packets := filtered("udp.flow.bytes"), filtered("udp.flow.packets")
	p := f.NewPivot(slices.DeleteFunc(slices.Clone(group),
		func(field string) bool { return field == "side" })...)
	c := [4]int{p.Add(bytes, "direction", "rx"), p.Add(bytes, "direction", "tx"),
		p.Add(packets, "direction", "rx"), p.Add(packets, "direction", "tx")}
	count := p.Distinct(bytes, "netns", "local", "localport", "peer", "peerport")
	p.SortBy(func(r int) float64 { return sum(p.At(r, c[0]), p.At(r, c[1])) }, f.MaxRows)
	for r := range p.Len() {
		one := udpCells{p.At(r, c[0]), p.At(r, c[1]), p.At(r, c[2]), p.At(r, c[3]), measure.NaN}
		if bytes.FieldIndex("localport") >= 0 {
			one.sockets = float64(count(r))
		}
		rx, tx = rx+orZero(one.rx), tx+orZero(one.tx)
		if orZero(one.rxPackets)+orZero(one.txPackets) == 0 ||
			f.MaxRows > 0 && r > f.MaxRows {
			continue // counted in the sums only
		}
		t.Rows = append(t.Rows, view.Row{Key: "udp " + p.ID(r), Cells: cells(p, r, one)})
	}
	return rx, tx
}

// ofNamespaces returns the traffic of the network namespaces whose interfaces are counted: a BPF
// program sees those of all.
func ofNamespaces(a *measure.Answer, f *view.Frame) *measure.Answer {
	counted := map[string]bool{}
	info := f.Of("net.device.info")
	for i := range info.Series {
		counted[info.LabelOf(i, "netns")] = true
	}
	b := *a
	b.Series = nil
	b.SetColumn(nil, 0)
	for i, s := range a.Series {
		if counted[a.LabelOf(i, "netns")] {
			b.Series = append(b.Series, s)
		}
	}
	return &b
}

// udpCells are the numbers of a row of UDP traffic.
type udpCells struct {
	rx, tx, rxPackets, txPackets float64 // per second
	sockets                      float64 // with their peers; NaN: not known
}

// unconnected reports whether an address is that of a socket that is not connected.
func unconnected(address string) bool { return address == "0.0.0.0" || address == "::" }

// withUDPPort returns an answer with the field "port": the own port of a socket that is not
// connected, else the lower one of both ports, which a service has.
func withUDPPort(a *measure.Answer) *measure.Answer {
	local, peer := a.FieldIndex("localport"), a.FieldIndex("peerport")
	if local < 0 || peer < 0 {
		return a
	}
	b := *a
	b.Query.By = append(append([]string(nil), a.Query.By...), "port")
	b.Series = make([]measure.Series, len(a.Series))
	b.SetColumn(nil, 0)
	number := func(i, field int) int {
		n, err := strconv.Atoi(a.Label(i, field))
		if err != nil {
			return 0
		}
		return n
	}
	for i, s := range a.Series {
		port := s.Key[local]
		if n := number(i, peer); n > 0 && n < number(i, local) {
			port = s.Key[peer]
		}
		b.Series[i] = s
		b.Series[i].Key = append(append([]measure.Label(nil), s.Key...), port)
	}
	return &b
}

// sortByBytes orders rows of TCP and UDP by their bytes, and keeps the first n, one more where
// there are more; 0: all.
func sortByBytes(t *view.Table, n int) {
	rx, tx := t.Column("rx_bytes_per_s"), t.Column("tx_bytes_per_s")
	slices.SortStableFunc(t.Rows, func(a, b view.Row) int {
		of := func(r *view.Row) float64 { return orZero(r.Cells[rx].Num) + orZero(r.Cells[tx].Num) }
		switch x, y := of(&a), of(&b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	if n > 0 && len(t.Rows) > n+1 {
		t.Rows = t.Rows[:n+1]
	}
}
