package trace

import (
	"slices"

	"culprit/lang/check"
)

// mostClauses is how many clauses one program has at most where clauses of a probe may be in
// several programs. To load a program with twice as many clauses takes the kernel more than twice
// as long, and it refuses some thousand.
const mostClauses = 400

// divided divides units with too many clauses into several, which run one after the other at the
// same probe. Those whose clauses share variables of a firing remain whole, as do those at probes
// whose programs the kernel does not run in the order in which they were attached.
func divided(p *check.Program, units []*Unit) []*Unit {
	if slices.ContainsFunc(p.Vars, func(v *check.Var) bool { return v.Home == check.This }) {
		return units
	}
	var out []*Unit
	for _, u := range units {
		run := u.Probes[0].Site == check.SiteRun
		switch u.Probes[0].Site {
		case check.SiteRun, check.SiteSyscallEntry, check.SiteSyscallReturn,
			check.SiteRawTracepoint, check.SiteTracepointBTF:
		default:
			out = append(out, u)
			continue
		}
		for i, clauses := range slices.Collect(slices.Chunk(u.Clauses, mostClauses)) {
			one := *u
			one.Clauses, one.Later = clauses, u.Later || run && i > 0
			out = append(out, &one)
		}
	}
	return out
}
