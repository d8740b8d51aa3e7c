package captured

import (
	"fmt"
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// isLoopback reports whether a name is that of a loopback interface.
func isLoopback(name string) bool { return name == "lo" || name == "lo0" || name == "Total" }

// interfaces finds interfaces that receive and send nothing.
func (s *study) interfaces() {
	for _, t := range s.of(Devices) {
		if !t.Has("rxpackets", "txpackets") {
			continue
		}
		s.shown["network"] = true
		names, by := group(t.measured(), "device")
		for _, name := range names {
			r := typical(by[name], "rxpackets")
			if r == nil || isLoopback(name) || r.Num("rxpackets") < threshold.UnusedRate ||
				r.Num("txpackets") >= threshold.UnusedAnswer*r.Num("rxpackets") {
				continue
			}
			if s.find1("interface-unused/"+name) == nil {
				s.accuseUnused(r, by, names)
			}
		}
	}
}

func (s *study) accuseUnused(r *Row, by map[string][]*Row, names []string) {
	device := r.Word("device")
	var peer *Row
	for _, name := range names {
		if o := typical(by[name], "rxpackets"); o != nil && name != device && !isLoopback(name) &&
			o.Num("txpackets") >= threshold.UnusedAnswer*o.Num("rxpackets") &&
			o.Num("rxpackets") >= threshold.UnusedRate {
			peer = o
		}
	}
	severity, confidence := diagnose.Low, 0.5
	claim := fmt.Sprintf("%s receives %s packets/s and sends none", device,
		quoted(r.Num("rxpackets")))
	if sent := r.Num("txpackets"); sent > 0 {
		claim = fmt.Sprintf("%s receives %s packets/s and sends %s", device,
			quoted(r.Num("rxpackets")), phrase.Count(sent))
	}
	interrupts := s.interruptRow(device)
	if interrupts != nil {
		claim += fmt.Sprintf("; its interrupts take %s of CPU %s",
			percent(interrupts.Num("share")), interrupts.Word("cpu"))
	}
	if peer != nil {
		severity, confidence = diagnose.Medium, 0.75
		claim += fmt.Sprintf("; %s beside it answers what it receives", peer.Word("device"))
		if near(peer.Num("rxpackets"), r.Num("rxpackets"), threshold.UnusedTwin) {
			severity, confidence = diagnose.High, 0.9
		}
	}
	address := s.addressOf(device)
	down := address != nil && !hasFlag(address, "UP")
	if down {
		claim += "; it is not UP"
		severity, confidence = diagnose.High, 0.95
	}
	if interrupts != nil && interrupts.Num("share") >= 100*threshold.UnusedHeavy && peer != nil {
		severity, confidence = diagnose.High, max(confidence, 0.95)
	}
	f := s.find("interface-unused", device, severity, confidence,
		diagnose.Culprit{Kind: "interface", Name: device, Interface: device}, claim+".")
	evidence(f, r, r.Num("rxpackets"), string(measure.Packets)+"/s",
		"%s: %s packets/s (%s) received, %s sent%s", device, quoted(r.Num("rxpackets")),
		phrase.BytesRate(r.Num("rxbytes")), phrase.Count(r.Num("txpackets")), usedText(r))
	if peer != nil {
		evidence(f, peer, peer.Num("rxpackets"), string(measure.Packets)+"/s",
			"%s: %s packets/s received, %s sent%s", peer.Word("device"),
			quoted(peer.Num("rxpackets")), quoted(peer.Num("txpackets")),
			usedText(peer))
	}
	if interrupts != nil {
		evidence(f, interrupts, interrupts.Num("share")/100, "1",
			"interrupts of %s take %s of CPU %s, %s/s", device,
			percent(interrupts.Num("share")), interrupts.Word("cpu"),
			phrase.Count(interrupts.Num("rate")))
	}
	s.flagEvidence(f, address, peer)
	if peer == nil {
		caveat(f, "No other interface of the table answers what it receives: this one may serve "+
			"datagrams, a capture or a mirror port.")
	}
	if strings.HasPrefix(device, "bond") || strings.HasPrefix(device, "team") {
		caveat(f, "Members of a bond may send through another member.")
	}
	f.Verify = "tcpdump -eni " + phrase.Shell(device) + " -c 20"
	if s.solaris() {
		f.Verify = "snoop -d " + phrase.Shell(device) + " -c 20"
	}
}

func usedText(r *Row) string {
	if v := r.Num("util"); v == v {
		return fmt.Sprintf(", %s of its speed", percent(v))
	}
	return ""
}

// flagEvidence adds flags, the address, and a MAC that two interfaces share.
func (s *study) flagEvidence(f *diagnose.Finding, a, peer *Row) {
	if a == nil {
		return
	}
	up := "it is UP"
	if !hasFlag(a, "UP") {
		up = "it is not UP"
	}
	evidence(f, a, 1, "1", "%s: flags %s: %s, address %s", a.Word("device"), a.Word("flags"), up,
		orNone(a.Word("inet")))
	if peer == nil || a.Word("ether") == "" {
		return
	}
	if o := s.addressOf(peer.Word("device")); o != nil && o.Word("ether") == a.Word("ether") {
		evidence(f, o, 1, "1", "%s has the same MAC %s", o.Word("device"), o.Word("ether"))
	}
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

func near(a, b, factor float64) bool { return a <= b*factor && b <= a*factor }

func hasFlag(r *Row, flag string) bool {
	return r.Word("flags") == "" || slices.Contains(strings.Split(r.Word("flags"), ","), flag)
}

// addressOf returns the row of flags of an interface, nil when it was not captured.
func (s *study) addressOf(device string) *Row {
	for _, t := range s.of(Addresses) {
		for _, r := range t.Rows {
			if r.Word("device") == device {
				return r
			}
		}
	}
	return nil
}

// interruptRow returns the row with the largest CPU share of the interrupts of an interface.
func (s *study) interruptRow(device string) (most *Row) {
	for _, t := range s.of(Interrupts) {
		for _, r := range t.Rows {
			if r.Word("device") == device && r.Num("share") == r.Num("share") &&
				(most == nil || r.Num("share") > most.Num("share")) {
				most = r
			}
		}
	}
	return most
}

// addresses finds two interfaces with one MAC where only flags were captured.
func (s *study) addresses() {
	for _, t := range s.of(Addresses) {
		names, by := group(t.Rows, "ether")
		for _, mac := range names {
			rows := by[mac]
			if len(rows) < 2 || mac == "" || strings.Trim(mac, "0:") == "" ||
				s.find1any("interface-unused") != nil || virtualNames(rows) {
				continue
			}
			var devices []string
			for _, r := range rows {
				devices = append(devices, r.Word("device"))
			}
			f := s.find(
				"mac-shared",
				strings.Join(devices, ","),
				diagnose.Low,
				0.5,
				diagnose.Culprit{Kind: "interface", Name: devices[0]},
				fmt.Sprintf(
					"%s have one MAC, %s: on one hub or segment each receives the frames of "+
						"the other.",
					phrase.List(devices),
					mac,
				),
			)
			for _, r := range rows {
				evidence(f, r, 1, "1", "%s: flags %s, address %s", r.Word("device"),
					r.Word("flags"), orNone(r.Word("inet")))
			}
			caveat(f, "Flags do not show traffic; packet rates do: nicstat 1 or sar -n DEV 1.")
		}
	}
}

// virtualNames reports whether the interfaces are parts of one: a bond, VLANs, logical interfaces.
func virtualNames(rows []*Row) bool {
	for _, r := range rows {
		name := r.Word("device")
		if strings.ContainsAny(name, ".:@") || hasFlagSet(r, "SLAVE") || hasFlagSet(r, "MASTER") {
			return true
		}
		for _, p := range []string{"bond", "team", "br", "vlan", "macvlan", "aggr", "ipmp"} {
			if strings.HasPrefix(name, p) {
				return true
			}
		}
	}
	return false
}

func hasFlagSet(r *Row, flag string) bool {
	return slices.Contains(strings.Split(r.Word("flags"), ","), flag)
}
