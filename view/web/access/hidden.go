package access

import (
	"slices"

	"culprit/measure"
)

// hiddenFields are the fields that the role metrics does not see: what people typed, who they are,
// and whom they talk to. Stacks and D programs are hidden by their types.
//
// table: names of fields
var hiddenFields = []string{"command", "user", "peer", "peerport", "client"}

// findings is the statistic of findings, whose culprit is a peer's address where kind is peer.
const findings = "finding.confidence"

// notPeer selects the findings that name no peer.
//
// table: a constant that Go cannot express
var notPeer = measure.Term{Field: "kind", Op: measure.NotEqual, Values: []string{"peer"}}

// HiddenFields lists the names of the fields that the role metrics does not see, beside stacks.
func HiddenFields() []string { return slices.Clone(hiddenFields) }

// Hide returns datasets as the role metrics may read them: without hidden fields, so that their
// rows are folded. Datasets of D programs of users are left out, since these put anything in
// fields, and so are datasets that a predicate narrows by a hidden field. Findings that name a peer
// are left out too.
func Hide(all []measure.Dataset, isScript func(measure.StatID) bool) []measure.Dataset {
	out := make([]measure.Dataset, 0, len(all))
	for _, d := range all {
		hidden := map[string]bool{}
		for _, f := range d.Stat.Fields {
			hidden[f.Name] = f.Type == measure.Stack || slices.Contains(hiddenFields, f.Name)
		}
		narrowed := slices.ContainsFunc(d.Query.Where, func(t measure.Term) bool {
			return hidden[t.Field]
		})
		if isScript(d.Stat.ID) || narrowed {
			continue
		}
		d.Stat.Fields = slices.DeleteFunc(slices.Clone(d.Stat.Fields),
			func(f measure.Field) bool { return hidden[f.Name] })
		d.Query.By = slices.DeleteFunc(slices.Clone(d.Query.By),
			func(name string) bool { return hidden[name] })
		if d.Stat.ID == findings {
			d.Query.Where = append(slices.Clone(d.Query.Where), notPeer)
		}
		out = append(out, d)
	}
	return out
}
