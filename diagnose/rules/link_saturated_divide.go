package rules

import (
	"culprit/diagnose"
	"culprit/diagnose/attribute"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// linkUsers is how many programs of a link are examined for connections that wait for it.
const linkUsers = 16

// divideLink divides the traffic of a full link among programs. share returns the share of a flow
// on the wire.
func (f *fullLink) divide(l *diagnose.Look, groups []facts.FlowGroup,
	share func(*facts.Flow) float64) *attribute.Result {
	total, t := f.wire.Mean(f.s.Mask)*8, l.Table(facts.FlowBytes)
	unsent := l.Table(facts.FlowUnsent)
	var users []attribute.User
	for i, g := range groups {
		var rows []*diagnose.Row
		part := 0.0
		for _, x := range g.Flows {
			rows = append(rows, x.Row)
			part += share(x) * total
		}
		u := attribute.User{Name: "an unknown process", Part: part}
		x := g.Flows[0]
		if u.Statistic = t.QueryOf(nil, "netns", x.NetNS, "pid", facts.PIDWord(x.PID),
			"direction", f.direction); x.PID > 0 {
			a := facts.Actors(l, t, rows, f.s.Mask)[0]
			u.Name, u.Group, u.PID = a.String(), a.Group(), a.PID()
		}
		// A program that wrote data which the link has not taken yet would fill it alone.
		if i < linkUsers && f.direction == "tx" {
			for _, x := range g.Flows[:min(len(g.Flows), linkUsers)] {
				if x.RowIn(unsent).Mean(f.s.Mask) >= threshold.LinkUnsent {
					u.Wants = total
				}
			}
		}
		users = append(users, u)
	}
	basis := "measured: payload by connection; estimated: headers, and who would send more"
	if f.direction == "rx" {
		basis = "measured: payload by connection; estimated: headers; unknown: whether other " +
			"senders would use what is left"
	}
	name := phrase.DeviceName(f.d.NetNS, f.d.Name)
	return attribute.Divide(&attribute.Resource{Name: name + " " + f.direction,
		Unit: string(measure.BitsPerSec), Total: total, Limit: threshold.LinkFull * f.lim.Bits,
		Least: threshold.LinkOwner, Users: users, Amount: phrase.BitRate, Basis: basis,
		State: func(use float64) string {
			return name + " would carry " + phrase.BitRate(use)
		},
		RestIs: "of no TCP connection of this machine, or headers of small packets"})
}
