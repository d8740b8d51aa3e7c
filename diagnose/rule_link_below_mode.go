package diagnose

import (
	"fmt"
	"strings"

	"culprit/measure"
)

// linkHalfUsed: from here on a link that could be faster would be noticed.
const linkHalfUsed = 0.5

// linkBelowMode finds interfaces that negotiated less than they could.
func linkBelowMode() Rule {
	return Rule{
		ID: "link-below-mode", Checks: "link modes",
		Finds: []string{deviceModes},
		Uses:  []string{deviceSpeed, deviceInfo, deviceWire, deviceBytes, devicePackets},
		Check: func(l *Look) {
			n := networkOf(l.Table(deviceInfo))
			modes := l.Table(deviceModes)
			seen := map[place]bool{}
			for _, r := range modes.Rows {
				p := place{r.Word("netns"), r.Word("device")}
				if !seen[p] {
					seen[p] = true
					checkMode(l, n.get(p))
				}
			}
		},
	}
}

// bestMode gives the fastest mode of a list: supported, advertised, partner. 0 when the list is not known. A mode's value
// is its speed.
func bestMode(l *Look, d *device, which string) (float64, string) {
	best, name := 0.0, ""
	for _, r := range l.Table(deviceModes).Where("netns", d.netns, "device", d.name, "list", which) {
		if v := r.Last(); v > best || v == best && strings.Contains(r.Word("mode"), "Full") && !strings.Contains(name, "Full") {
			best, name = v, r.Word("mode")
		}
	}
	return best, name
}

func checkMode(l *Look, d *device) {
	t := l.Table(deviceSpeed)
	row := t.One("netns", d.netns, "device", d.name)
	speed := row.Last()
	supported, mode := bestMode(l, d, "supported")
	advertised, _ := bestMode(l, d, "advertised")
	partner, partnerMode := bestMode(l, d, "partner")
	half := d.duplex == "half" && supported == speed && strings.Contains(mode, "Full")
	if d.loopback() || d.down() || d.state == "down" || !(speed > 0) || !(supported > speed) && !half {
		return
	}
	for c := range t.Seconds { // it must be the state, not a negotiation under way
		if v := row.At(c); v == v && v != speed {
			return
		}
	}
	s := whole(t)
	wire := l.Table(deviceWire)
	use, direction := measure.NaN, "tx"
	for _, dir := range []string{"tx", "rx"} {
		if v := bothWays(l, d, dir, onLine(l, d, dir)).Mean(nil) * 8 / speed; v > use || use != use {
			use, direction = v, dir
		}
	}
	severity := Low
	switch {
	case use >= linkFull:
		severity = High
	case use >= linkHalfUsed, half:
		severity = Medium
	}
	why, confidence := "", 0.85
	switch {
	case advertised > 0 && advertised <= speed:
		why = "this side offers no more (advertised modes were restricted)"
		confidence = 0.9
	case partner > 0 && partner <= speed:
		why = "its partner offers no more than " + linkRate(partner)
	case partner > speed:
		why = "its partner offers " + linkRate(min(partner, supported)) + " too. A cable with a broken pair, a bad plug or a forced speed does that"
		confidence = 0.95
	default:
		why = "what its partner offers is not told"
	}
	claim := fmt.Sprintf("%s runs at %s and could do %s: %s.", at(d.netns, d.name), linkRate(speed), linkRate(supported), why)
	if half {
		claim = fmt.Sprintf("%s runs half duplex at %s and could do full duplex: now both directions share the line and collide.", at(d.netns, d.name), linkRate(speed))
	}
	f := l.Found(slot(d.netns, d.name), severity, confidence, Culprit{Kind: "interface", Name: d.name, NetNS: d.netns, Interface: d.name},
		claim)
	f.proof(t, s, row.Sentence(), speed, measure.BitsPerSec, "negotiated "+linkRate(speed)+duplexText(d)).than(supported, "best supported mode")
	m := l.Table(deviceModes)
	f.proof(m, s, m.Asking([]string{"mode"}, "netns", d.netns, "device", d.name, "list", "supported"), supported, measure.BitsPerSec, "it supports "+clean(mode))
	if partner > 0 {
		f.proof(m, s, m.Asking([]string{"mode"}, "netns", d.netns, "device", d.name, "list", "partner"), partner, measure.BitsPerSec, "its partner offers "+clean(partnerMode))
	}
	if use == use {
		w := wire.One("netns", d.netns, "device", d.name, "direction", direction)
		f.proof(wire, s, w.Sentence(), use*speed, measure.BitsPerSec, fmt.Sprintf("%s of the speed it has is in use (%s)", percent(use), direction)).than(speed, "negotiated speed")
		if severity == Low {
			f.but(0, "Only %s of the speed it has is in use: nothing waits for more.", percent(use))
		}
	}
	f.Verify = within(d.netns, "ethtool "+shell(d.name))
	if d.autoneg == "on" {
		f.Fix = &Fix{within(d.netns, "ethtool -r "+shell(d.name)), "", "medium: the link is down for some seconds while it negotiates again; if it comes back as it was, change the cable or the partner's port"}
	}
}

func duplexText(d *device) string {
	if d.duplex == "full" || d.duplex == "half" {
		return ", " + d.duplex + " duplex"
	}
	return ""
}
