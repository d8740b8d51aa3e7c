package rules

import (
	"fmt"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// linkBelowMode finds interfaces that negotiated less than they support.
func linkBelowMode() diagnose.Rule {
	return diagnose.Rule{
		ID: "link-below-mode", Checks: "link modes",
		Finds: []string{facts.DeviceModes},
		Uses: []string{facts.DeviceSpeed, facts.DeviceInfo, facts.DeviceWire, facts.DeviceBytes,
			facts.DevicePackets},
		Check: func(l *diagnose.Look) {
			n := facts.NetworkOf(l.Table(facts.DeviceInfo))
			modes := l.Table(facts.DeviceModes)
			seen := map[facts.DeviceID]bool{}
			for _, r := range modes.Rows {
				p := facts.DeviceID{NetNS: r.Word("netns"), Name: r.Word("device")}
				if !seen[p] {
					seen[p] = true
					checkMode(l, n.Get(p))
				}
			}
		},
	}
}

// bestMode returns the fastest mode of a list (supported, advertised, partner) and its name. 0 when
// the list is unknown. The value of a mode is its speed.
func bestMode(l *diagnose.Look, d *facts.Device, which string) (float64, string) {
	best, name := 0.0, ""
	for _, r := range l.Table(facts.DeviceModes).Where("netns", d.NetNS, "device", d.Name, "list",
		which) {
		if v := r.Last(); v > best || v == best && strings.Contains(r.Word("mode"), "Full") &&
			!strings.Contains(name, "Full") {
			best, name = v, r.Word("mode")
		}
	}
	return best, name
}

func checkMode(l *diagnose.Look, d *facts.Device) {
	t := l.Table(facts.DeviceSpeed)
	row := t.One("netns", d.NetNS, "device", d.Name)
	speed := row.Last()
	supported, mode := bestMode(l, d, "supported")
	advertised, _ := bestMode(l, d, "advertised")
	partner, partnerMode := bestMode(l, d, "partner")
	half := d.Duplex == "half" && supported == speed && strings.Contains(mode, "Full")
	if d.Loopback() || d.Down() || d.State == "down" || !(speed > 0) || !(supported > speed) &&
		!half {
		return
	}
	for c := range t.Seconds { // a state, not a negotiation
		if v := row.At(c); v == v && v != speed {
			return
		}
	}
	s := diagnose.WholePeriod(t)
	wire := l.Table(facts.DeviceWire)
	use, direction := measure.NaN, "tx"
	for _, dir := range []string{"tx", "rx"} {
		if v := facts.BothWays(l, d, dir, facts.OnLine(l, d, dir)).Mean(nil) * 8 / speed; v > use ||
			use != use {
			use, direction = v, dir
		}
	}
	severity := diagnose.Low
	switch {
	case use >= threshold.LinkFull:
		severity = diagnose.High
	case use >= threshold.LinkHalfUsed, half:
		severity = diagnose.Medium
	}
	why, confidence := "", 0.85
	switch {
	case advertised > 0 && advertised <= speed:
		why = "this side advertises no faster mode (advertised modes were restricted)"
		confidence = 0.9
	case partner > 0 && partner <= speed:
		why = "its partner advertises at most " + phrase.LinkRate(partner)
	case partner > speed:
		why = "its partner advertises " + phrase.LinkRate(min(partner, supported)) +
			" too. Causes are a cable with a broken pair, a bad plug, or a forced speed"
		confidence = 0.95
	default:
		why = "the modes of its partner are unknown"
	}
	claim := fmt.Sprintf("%s runs at %s and supports %s: %s.", phrase.DeviceName(d.NetNS, d.Name),
		phrase.LinkRate(speed), phrase.LinkRate(supported), why)
	if half {
		claim = fmt.Sprintf("%s runs half duplex at %s and supports full duplex: both directions "+
			"share the line and collide.", phrase.DeviceName(d.NetNS, d.Name),
			phrase.LinkRate(speed))
	}
	f := l.Found(phrase.Identity(d.NetNS, d.Name), severity, confidence,
		diagnose.Culprit{Kind: "interface", Name: d.Name, NetNS: d.NetNS, Interface: d.Name},
		claim)
	f.AddEvidence(t, s, row.Query(), speed, measure.BitsPerSec,
		"negotiated "+phrase.LinkRate(speed)+duplexText(d)).CompareTo(supported,
		"best supported mode")
	m := l.Table(facts.DeviceModes)
	f.AddEvidence(m, s, m.QueryOf([]string{"mode"}, "netns", d.NetNS, "device", d.Name, "list",
		"supported"), supported, measure.BitsPerSec, "it supports "+phrase.Clean(mode))
	if partner > 0 {
		f.AddEvidence(m, s, m.QueryOf([]string{"mode"}, "netns", d.NetNS, "device", d.Name, "list",
			"partner"), partner, measure.BitsPerSec,
			"its partner advertises "+phrase.Clean(partnerMode))
	}
	if use == use {
		w := wire.One("netns", d.NetNS, "device", d.Name, "direction", direction)
		f.AddEvidence(wire, s, w.Query(), use*speed, measure.BitsPerSec,
			fmt.Sprintf("%s of its speed is in use (%s)", phrase.Percent(use),
				direction)).CompareTo(speed, "negotiated speed")
		if severity == diagnose.Low {
			f.AddCaveat(0, "Only %s of its speed is in use: no traffic waits for more.",
				phrase.Percent(use))
		}
	}
	f.Verify = phrase.InNamespace(d.NetNS, "ethtool "+phrase.Shell(d.Name))
	if d.Autoneg == "on" {
		f.Fix = &diagnose.Fix{Command: phrase.InNamespace(d.NetNS,
			"ethtool -r "+phrase.Shell(d.Name)), Undo: "",
			Risk: "medium: the link is down for some seconds while it renegotiates; if the " +
				"speed is the same afterwards, change the cable or the port of the partner"}
	}
}

func duplexText(d *facts.Device) string {
	if d.Duplex == "full" || d.Duplex == "half" {
		return ", " + d.Duplex + " duplex"
	}
	return ""
}
