package classic

import (
	"slices"
	"strings"

	"culprit/measure"
	"culprit/view"
)

// Link returns the tool link, like ifconfig -a, ethtool and dladm show-linkprop.
func Link() *view.Tool {
	return &view.Tool{
		Name:  "link",
		Short: "state, speed, modes, driver, addresses and problems of interfaces (ifconfig -a, ethtool)",
		Long: `One row per interface. State is the administrative state and, behind the slash, the kernel's
(operstate). Speed is the negotiated one. best is the fastest mode that both ends advertise, or that
the card supports if the partner's modes are unknown. A remark behind the row names a possible
problem: a link below its best mode, half duplex, two unrelated interfaces with one MAC address, an
interface without a use that receives traffic.
Supported, advertised and partner modes, flags, queues and rings are in --json and --wide.`,
		Examples: []view.Example{
			{Line: "culprit link", Means: "all interfaces, now"},
			{Line: "culprit link --netns all", Means: "the interfaces of every network namespace"},
			{Line: "culprit link -w -i eth0", Means: "all about one interface"},
		},
		Operand: "interface",
		Flags: []view.Flag{
			{
				Name:       "interface",
				Letter:     "i",
				Value:      "NAME",
				Many:       true,
				NamesQuery: "net.device.info by device",
				Help:       "only these interfaces (comma list with * and ?)",
			},
		},
		Once: true,
		Ask: func(view.Options) []string {
			return []string{
				"net.device.info by netns,device,index,kind,driver,mac,admin,state,duplex," +
					"autoneg,mtu,master,lower,rxqueues,txqueues,flags",
				"net.device.speed by netns,device",
				"net.device.modes by netns,device,list,mode",
				"net.device.address by netns,device,family,address,prefix,scope",
				"net.device.packets by netns,device,direction",
				"net.device.uses by netns,device,use",
				"net.ring.size by netns,device,ring,bound",
			}
		},
		Table: linkTable,
		Drill: func(t *view.Table, r *view.Row) *view.Drill {
			device := t.Text(r, "device")
			return &view.Drill{
				Tool:    "nic",
				Options: view.Options{"interface": {device}},
				Title:   "traffic of " + device,
			}
		},
	}
}

func linkTable(o view.Options, f *view.Frame) *view.Table {
	t := &view.Table{View: "link", Columns: []view.Column{
		{Name: "netns", Help: "network namespace"},
		{Name: "device", Head: "Device", Width: 8, Left: true, Help: "interface"},
		{
			Name:  "kind",
			Head:  "Kind",
			Width: 8,
			Left:  true,
			Help:  "loopback, ethernet, veth, bridge ...",
		},
		{Name: "admin", Help: "administrative state"},
		{
			Name:  "state",
			Head:  "State",
			Width: 9,
			Left:  true,
			Help:  "administrative state / operstate",
		},
		{
			Name:  "speed_bits_per_s",
			Head:  "Mbit/s",
			Show:  view.Mbit,
			Width: 7,
			Help:  "negotiated speed",
		},
		{
			Name:  "best_bits_per_s",
			Head:  "best",
			Show:  view.Mbit,
			Width: 6,
			Help:  "fastest mode that both ends support",
		},
		{Name: "duplex", Head: "Dup", Width: 4, Left: true, Help: "full or half"},
		{Name: "autonegotiation", Head: "Auto", Width: 4, Left: true, Help: "on or off"},
		{Name: "mtu_bytes", Head: "MTU", Width: 5, Help: "largest payload of a frame"},
		{Name: "mac", Head: "MAC", Width: 17, Left: true, Help: "hardware address"},
		{
			Name:     "addresses",
			Head:     "Addresses",
			Width:    18,
			Left:     true,
			MinWidth: 100,
			Help:     "with prefix length",
		},
		{
			Name:     "driver",
			Head:     "Driver",
			Width:    10,
			Left:     true,
			MinWidth: 110,
			Help:     "kernel driver",
		},
		{
			Name:     "master",
			Head:     "Master",
			Width:    8,
			Left:     true,
			MinWidth: 120,
			Help:     "bridge or bond that it belongs to",
		},
		{
			Name:     "lower",
			Head:     "Lower",
			Width:    8,
			Left:     true,
			MinWidth: 120,
			Help:     "device below (VLAN, macvlan), or peer",
		},
		{
			Name:     "rx_packets_per_s",
			Head:     "rPk/s",
			Decimals: 0,
			Width:    7,
			MinWidth: 130,
			Help:     "packets received",
		},
		{
			Name:     "tx_packets_per_s",
			Head:     "wPk/s",
			Decimals: 0,
			Width:    7,
			MinWidth: 130,
			Help:     "packets sent",
		},
		{Name: "rx_queues", Head: "rxq", Width: 3, MinWidth: 150, Help: "receive queues"},
		{Name: "tx_queues", Head: "txq", Width: 3, MinWidth: 150, Help: "transmit queues"},
		{Name: "rx_ring", Head: "rxring", Width: 6, MinWidth: 160, Help: "receive ring, now"},
		{Name: "tx_ring", Head: "txring", Width: 6, MinWidth: 160, Help: "transmit ring, now"},
		{
			Name:     "uses",
			Head:     "Uses",
			Width:    16,
			Left:     true,
			MinWidth: 170,
			Help:     "reasons for the device to receive packets",
		},
		{
			Name:     "flags",
			Head:     "Flags",
			Width:    10,
			Left:     true,
			MinWidth: 200,
			Help:     "interface flags",
		},
		{
			Name:     "modes_supported",
			Head:     "supported",
			Left:     true,
			Width:    10,
			MinWidth: 240,
			Help:     "modes that the card supports",
		},
		{
			Name:     "modes_advertised",
			Head:     "advertised",
			Left:     true,
			Width:    10,
			MinWidth: 240,
			Help:     "modes that it advertises",
		},
		{
			Name:     "modes_partner",
			Head:     "partner",
			Left:     true,
			Width:    10,
			MinWidth: 240,
			Help:     "modes that the other end advertises",
		},
	}}
	p := f.NewPivot("netns", "device")
	info := f.Of("net.device.info")
	there := p.Add(info)
	speed := p.Add(f.Of("net.device.speed"))
	packets, ring := f.Of("net.device.packets"), f.Of("net.ring.size")
	rx, tx := p.Add(packets, "direction", "rx"), p.Add(packets, "direction", "tx")
	rxRing := p.Add(ring, "ring", "rx", "bound", "current")
	txRing := p.Add(ring, "ring", "tx", "bound", "current")
	p.Join("info", info)
	p.Sort()
	addresses := joinByDevice(f.Of("net.device.address"), func(a *measure.Answer, i int) string {
		return a.LabelOf(i, "address") + "/" + a.LabelOf(i, "prefix")
	})
	uses := joinByDevice(f.Of("net.device.uses"), func(a *measure.Answer, i int) string {
		if a.Series[i].Values[0] > 0 {
			return a.LabelOf(i, "use")
		}
		return ""
	})
	modes := map[string]map[string]string{}
	for _, list := range []string{"supported", "advertised", "partner"} {
		modes[list] = joinByDevice(f.Of("net.device.modes"), func(a *measure.Answer, i int) string {
			if a.LabelOf(i, "list") == list {
				return a.LabelOf(i, "mode")
			}
			return ""
		})
	}
	best := bestModes(f.Of("net.device.modes"))
	for r := range p.Len() {
		if v := p.At(r, there); v != v {
			continue
		}
		device, id := p.Key(r, "device"), p.ID(r)
		if len(o["interface"]) > 0 && !view.MatchAny(o["interface"], device) {
			continue
		}
		w := func(field string) string { return p.Word(r, "info", field) }
		label := ""
		if ns := p.Key(r, "netns"); ns != "" {
			label = ns + "/" + device
		}
		top := measure.NaN
		if b, ok := best[id]; ok {
			top = b
		}
		row := view.Row{
			Key:   id,
			Label: label,
			Cells: []view.Cell{
				view.T(p.Key(r, "netns")),
				view.T(device),
				view.T(w("kind")),
				view.T(w("admin")),
				view.T(w("admin") + "/" + w("state")),
				view.N(
					p.At(r, speed),
				),
				view.N(top),
				view.TOrNull(w("duplex")),
				view.TOrNull(w("autoneg")),
				view.I(w("mtu")),
				view.TOrNull(w("mac")),
				view.TOrNull(addresses[id]),
				view.TOrNull(w("driver")),
				view.TOrNull(
					w("master"),
				),
				view.TOrNull(w("lower")),
				view.N(p.At(r, rx)),
				view.N(p.At(r, tx)),
				view.I(w("rxqueues")),
				view.I(w("txqueues")),
				view.N(p.At(r, rxRing)),
				view.N(p.At(r, txRing)),
				view.TOrNull(
					uses[id],
				),
				view.TOrNull(w("flags")),
				view.TOrNull(modes["supported"][id]),
				view.TOrNull(modes["advertised"][id]),
				view.TOrNull(modes["partner"][id]),
			},
		}
		var marks []string
		if s := p.At(r, speed); s < top {
			marks = append(marks, "below its best mode")
		}
		if w("duplex") == "half" {
			marks = append(marks, "half duplex")
		}
		if twin := sharedMAC(p, r); twin != "" {
			marks = append(marks, "same MAC as "+twin)
		}
		if unused := unusedReceiver(w, uses[id], p.At(r, rx), p.At(r, tx)); unused != "" {
			marks = append(marks, unused)
		}
		row.Remark = strings.Join(marks, "; ")
		t.Rows = append(t.Rows, row)
	}
	return t
}

// joinByDevice joins the texts of all series of each device. The keys of the result are "netns
// device". A text "" is skipped.
func joinByDevice(a *measure.Answer, text func(a *measure.Answer, i int) string) map[string]string {
	lists := map[string][]string{}
	for i := range a.Series {
		if s := text(a, i); s != "" {
			id := a.LabelOf(i, "netns") + " " + a.LabelOf(i, "device")
			lists[id] = append(lists[id], s)
		}
	}
	out := map[string]string{}
	for id, l := range lists {
		slices.SortFunc(l, strings.Compare)
		out[id] = strings.Join(slices.Compact(l), " ")
	}
	return out
}

// bestModes returns the speed of the fastest common mode of each device (key "netns device"): it is
// supported here and, where the partner's modes are known, advertised there.
func bestModes(a *measure.Answer) map[string]float64 {
	partner := map[string]map[string]bool{}
	for i := range a.Series {
		if a.LabelOf(i, "list") == "partner" {
			id := a.LabelOf(i, "netns") + " " + a.LabelOf(i, "device")
			if partner[id] == nil {
				partner[id] = map[string]bool{}
			}
			partner[id][a.LabelOf(i, "mode")] = true
		}
	}
	best := map[string]float64{}
	for i, s := range a.Series {
		id := a.LabelOf(i, "netns") + " " + a.LabelOf(i, "device")
		if a.LabelOf(i, "list") != "supported" ||
			partner[id] != nil && !partner[id][a.LabelOf(i, "mode")] {
			continue
		}
		if v := s.Values[0]; v > best[id] {
			best[id] = v
		}
	}
	return best
}

// sharedMAC returns another interface of the namespace that has the same MAC without a reason.
// Reasons are: one is the master or lower device of the other, or both have the same master, as in
// a bond.
func sharedMAC(p *view.Pivot, r int) string {
	mac := p.Word(r, "info", "mac")
	if mac == "" || mac == "00:00:00:00:00:00" {
		return ""
	}
	for o := range p.Len() {
		if o == r || p.Key(o, "netns") != p.Key(r, "netns") || p.Word(o, "info", "mac") != mac {
			continue
		}
		a, b := p.Key(r, "device"), p.Key(o, "device")
		word := func(row int, field string) string { return p.Word(row, "info", field) }
		related := word(r, "master") == b || word(o, "master") == a || word(r, "lower") == b ||
			word(o, "lower") == a ||
			word(r, "master") != "" && word(r, "master") == word(o, "master") ||
			word(r, "lower") != "" && word(r, "lower") == word(o, "lower") &&
				word(r, "kind") != "veth"
		if !related {
			return b
		}
	}
	return ""
}

// unusedReceiver returns a remark if an interface receives and nothing seems to use it; else "".
// The diagnosis checks it further.
func unusedReceiver(info func(string) string, uses string, rx, tx float64) string {
	if info("kind") == "loopback" || !(rx > 100) || !(tx <= rx/1000) {
		return ""
	}
	switch {
	case info("admin") == "down":
		return "down, yet it receives"
	case info("master") != "" || strings.Contains(uses, "upper") ||
		strings.Contains(uses, "packet-socket") || strings.Contains(uses, "xdp") ||
		strings.Contains(uses, "tc"):
		return ""
	}
	return "receives and never sends"
}
