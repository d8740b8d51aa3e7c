package facts

import (
	"sort"

	"culprit/diagnose"
)

// A LimitedFlow is a connection that its sender limits, and when.
type LimitedFlow struct {
	*Flow
	Period diagnose.Period
}

// A LimitedGroup has the connections of one program.
type LimitedGroup struct{ Flows []LimitedFlow }

// Largest returns the connection that sends most.
func (g *LimitedGroup) Largest() LimitedFlow {
	first := g.Flows[0]
	for _, f := range g.Flows {
		if f.Rate > first.Rate {
			first = f
		}
	}
	return first
}

// ByProgram groups connections by the program that sends, those with the most connections first.
func ByProgram(flows []LimitedFlow) []*LimitedGroup {
	type key struct {
		netns, process string
		pid            int
	}
	at := map[key]*LimitedGroup{}
	var all []*LimitedGroup
	for _, f := range flows {
		k := key{f.NetNS, f.Process, f.PID}
		if at[k] == nil {
			at[k] = &LimitedGroup{}
			all = append(all, at[k])
		}
		at[k].Flows = append(at[k].Flows, f)
	}
	sort.SliceStable(all, func(i, j int) bool { return len(all[i].Flows) > len(all[j].Flows) })
	return all
}
