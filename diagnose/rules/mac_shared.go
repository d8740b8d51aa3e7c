package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// macShared finds two devices in one namespace with the same hardware address.
func macShared() diagnose.Rule {
	return diagnose.Rule{
		ID: "mac-shared", Checks: "mac addresses",
		Needs: []string{facts.DeviceInfo},
		Uses:  []string{facts.DevicePackets, facts.DeviceAddress},
		Check: func(l *diagnose.Look) {
			n := facts.NetworkOf(l.Table(facts.DeviceInfo))
			reported := map[string]bool{}
			for i, a := range n.All {
				if !facts.OwnMAC(a) || reported[a.NetNS+"\x00"+a.MAC] {
					continue
				}
				var same []*facts.Device
				for _, b := range n.All[i+1:] {
					if b.NetNS == a.NetNS && facts.OwnMAC(b) && facts.SharedMAC(n, a, b) {
						same = append(same, b)
					}
				}
				if len(same) > 0 {
					reported[a.NetNS+"\x00"+a.MAC] = true
					accuseMAC(l, a, same)
				}
			}
		},
	}
}

func accuseMAC(l *diagnose.Look, a *facts.Device, same []*facts.Device) {
	info, p := l.Table(facts.DeviceInfo), l.Table(facts.DevicePackets)
	s := diagnose.WholePeriod(info)
	names := []string{phrase.DeviceName(a.NetNS, a.Name)}
	for _, b := range same {
		names = append(names, phrase.Clean(b.Name))
	}
	b := same[0]
	rate := func(d *facts.Device) *diagnose.Row {
		return p.One("netns", d.NetNS, "device", d.Name, "direction", "rx")
	}
	ra, rb := rate(a).Mean(nil), rate(b).Mean(nil)
	severity := diagnose.Low
	doing := ""
	if ra >= threshold.UnusedRate && rb >= threshold.UnusedRate && ra < threshold.UnusedTwin*rb &&
		rb < threshold.UnusedTwin*ra {
		severity = diagnose.Medium
		doing = fmt.Sprintf(", and both receive at about the same rate, %s and %s packets/s",
			phrase.Count(ra), phrase.Count(rb))
	}
	f := l.Found(phrase.Identity(a.NetNS, a.MAC), severity, 0.9,
		diagnose.Culprit{Kind: "interface", Name: b.Name, NetNS: a.NetNS, Interface: b.Name},
		fmt.Sprintf("%s share the MAC %s, and are not parts of one device%s.", phrase.List(names),
			phrase.Clean(a.MAC), doing))
	for _, d := range append([]*facts.Device{a}, same...) {
		f.AddEvidence(info, s, info.QueryOf([]string{"device"}, "netns", d.NetNS, "device", d.Name,
			"mac", d.MAC), 1, measure.Count,
			fmt.Sprintf("%s: MAC %s, %s, state %s", phrase.Clean(d.Name), phrase.Clean(d.MAC),
				phrase.Clean(d.Kind), phrase.Clean(d.State)))
		if r := rate(d); r.Mean(nil) == r.Mean(nil) {
			f.AddEvidence(p, s, r.Query(), r.Mean(nil), p.Unit,
				fmt.Sprintf("%s receives %s packets/s", phrase.Clean(d.Name),
					phrase.Count(r.Mean(nil))))
		}
	}
	f.AddCaveat(0, "Harmless on different network segments; on one segment switches send the "+
		"frames of both to either.")
	f.Verify = phrase.InNamespace(a.NetNS, "ip -br link") + " | sort -k3"
	f.Cover("mac-shared", nil)
}
