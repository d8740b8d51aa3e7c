package limits

import (
	"fmt"
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/measure"
)

// claim returns the sentence of a finding, and the confidence in it.
func (u *use) claim() (text string, confidence float64) {
	k := u.kind
	uses := fmt.Sprintf("%s uses %s of %s %s", k.words.name(u.owner), k.words.amount(u.used),
		k.words.amount(u.size), k.words.things)
	switch {
	case u.failing():
		return fmt.Sprintf("%s, its limit: %s.", uses, u.refusalText()), 0.95
	case u.isFull && k.errors.blocks:
		return fmt.Sprintf("%s for %s: %s.", uses, u.full, k.words.next), 0.9
	case u.isFull && u.known && u.refused == 0:
		return fmt.Sprintf("%s, its limit, for %s. Nothing failed because of it.", uses,
			u.full), 0.9
	case u.isFull:
		return fmt.Sprintf("%s, its limit, for %s: %s.", uses, u.full, k.words.next), 0.9
	case u.filling():
		return fmt.Sprintf("%s, %s more per second: it reaches the limit in %s, then %s.", uses,
			k.words.amount(u.rate), phrase.Ahead(u.left()),
			strings.Replace(k.words.next, "the next ", "each ", 1)), 0.7
	}
	return fmt.Sprintf("%s, %s of the limit. Its use does not grow steadily.", uses,
		phrase.Percent(min(u.used/u.size, 1))), 0.9
}

// accuse reports a use.
func (u *use) accuse(l *diagnose.Look) {
	k, r := u.kind, u.owner
	culprit := k.culprit(r)
	claim, confidence := u.claim()
	f := l.Found(k.identity(r), u.severity(), confidence, culprit, claim)
	u.evidence(f)
	if k.more != nil {
		k.more(l, f, u)
	}
	if u.isFull && !u.known && !k.errors.blocks {
		why := l.Table(facts.FailedCalls).Why
		if why == "" {
			why = "counting was stopped for its cost"
		}
		f.AddCaveat(0.2, "It is unknown whether calls fail because of it: %s.", why)
	}
	if u.filling() && !u.failing() {
		f.AddCaveat(0.1, "A job that ends before fills it in the same way.")
	}
	f.Verify = k.verify(r)
	if k.fix != nil {
		f.Fix = k.fix(r, u.size)
	}
	f.Cover("calls-fail", func(o *diagnose.Finding) bool {
		calls, ok := o.Subject.(facts.FailingCalls)
		failed := failedCalls(l, k, r)
		return ok && (calls.Explained(failed) || len(failed) == 0 && k.id == "pids" &&
			calls.Failure.Error == "EAGAIN" && calls.Rate <= 2*u.refused)
	})
	if k.id == "io" || k.id == "io-operations" {
		f.Cover("io-stalled", func(o *diagnose.Finding) bool {
			return o.Culprit.Kind == "host" ||
				o.Culprit.Kind == "cgroup" && facts.Below(o.Culprit.Name, culprit.Name)
		})
		f.Cover("tasks-blocked", facts.BlockedOnDevice)
	}
	if k.id == "time-wait" {
		f.Cover("table-full", func(o *diagnose.Finding) bool {
			return o.Culprit.Name == culprit.Name && o.Culprit.NetNS == culprit.NetNS
		})
	}
	if k.id == "files" && u.failing() { // a server without descriptors cannot accept
		f.Cover("tcp-listen-overflow", func(o *diagnose.Finding) bool {
			return o.Culprit.Kind == "process" && o.Culprit.Name == culprit.Name
		})
	}
}

// refusalText describes the requests that failed, and the programs that made them.
func (u *use) refusalText() string {
	if u.rows[0].Table.Column("error") < 0 {
		return phrase.Count(u.refused) + " " + u.kind.refusedWords()
	}
	var errors []string
	for _, r := range u.rows {
		if e := r.Word("error"); !slices.Contains(errors, e) {
			errors = append(errors, e)
		}
	}
	slices.Sort(errors)
	text := phrase.Count(u.refused) + " calls per second fail with " + phrase.List(errors)
	if phrase.Count(u.refused) == "1" {
		text = "1 call per second fails with " + phrase.List(errors)
	}
	if by := facts.ProgramNames(u.rows[0].Table, u.rows, nil); by != "" &&
		u.kind.culprit(u.owner).Kind != "process" {
		text += ", of " + by
	}
	return text
}

// evidence adds the use, the limit, the failed requests and the growth.
func (u *use) evidence(f *diagnose.Finding) {
	k, t := u.kind, u.table
	if u.refused > 0 {
		calls := u.rows[0].Table
		unit := calls.Unit
		for i, r := range u.rows {
			if v := r.Part(nil); v > 0 && i < 3 {
				what := phrase.Count(v) + " " + k.refusedWords()
				if name := r.Word("counter"); name != "" {
					what = fmt.Sprintf("%s grows by %s per second", phrase.Clean(name),
						phrase.Count(v))
				}
				if e := r.Word("error"); e != "" {
					pid := pidOf(r)
					what = fmt.Sprintf("%s of %s failed with %s %s times per second",
						phrase.Clean(r.Word("syscall")),
						phrase.ProcessName(r.Word("process"), pid), e, phrase.Count(v))
				}
				f.AddEvidence(calls, diagnose.WholePeriod(calls), r.Query(), v, unit, what)
			}
		}
	}
	s := u.near
	if u.isFull {
		s = u.full
	}
	f.AddEvidence(t, s, u.owner.Query(), u.used, t.Unit, fmt.Sprintf("%s of %s %s are in use",
		k.words.amount(u.used), k.words.amount(u.size), k.words.things)).CompareTo(u.size, "limit")
	for _, r := range u.sizes {
		if len(u.sizes) == 1 && k.limit == nil {
			f.AddEvidence(r.Table, s, r.Query(), r.Last(), r.Table.Unit,
				"the limit is "+k.words.amount(r.Last()))
		}
	}
	if u.filling() {
		f.AddEvidence(t, s, u.owner.Query(), u.rate, t.Unit+measure.Unit("/s"),
			fmt.Sprintf("%s more per second", k.words.amount(u.rate)))
	}
}
