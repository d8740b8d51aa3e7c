package rules

import (
	"fmt"
	"path"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
)

// diskSuspended finds devices of device mapper that somebody suspended and did not resume. Each
// request to them waits, and no disk is busy. A snapshot suspends its origin for a moment.
func diskSuspended() diagnose.Rule {
	return diagnose.Rule{
		ID: "disk-suspended", Checks: "suspended devices", About: "disk",
		Finds: []string{facts.DiskSuspended},
		Uses:  []string{facts.DiskName, facts.ProcessBlocked},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.DiskSuspended)
			for _, r := range t.Rows {
				s, ok := diagnose.Lasting(t, diagnose.HasValue(r),
					func(c int) bool { return r.At(c) > 0 })
				if ok && r.Word("device") != "" {
					accuseSuspended(l, r, s)
				}
			}
		},
	}
}

func accuseSuspended(l *diagnose.Look, r *diagnose.Row, s diagnose.Period) {
	device := r.Word("device")
	name := l.Table(facts.DiskName).One("device", device).Word("name")
	blocked := l.Table(facts.ProcessBlocked)
	var waits []*diagnose.Row
	for _, b := range blocked.Rows {
		source := path.Base(b.Word("source"))
		if (source == device || source == name) && b.Part(s.Mask) > 0 {
			waits = append(waits, b)
		}
	}
	title, number := facts.DiskTitle(l, device), 0.0
	severity, consequence := diagnose.Low, "requests to it wait until it is resumed"
	if programs := facts.Programs(blocked, waits, s.Mask); len(programs) > 0 {
		severity, number = diagnose.High, blocked.Mean(blocked.Sum(waits), s.Mask)
		consequence = facts.ShortNames(programs) + " waits for it"
		if len(programs) > 1 {
			consequence = facts.ShortNames(programs) + " wait for it"
		}
	}
	f := l.Found(phrase.Clean(device), severity, 0.95,
		diagnose.Culprit{Kind: "disk", Name: device}, fmt.Sprintf(
			"%s is suspended for %s: %s.", title, s, consequence))
	f.AddEvidence(r.Table, s, r.Query(), 1, r.Table.Unit, title+" is suspended")
	if number > 0 {
		f.SetEffect(s.Share())
		f.AddEvidence(blocked, s, blocked.QueryOf([]string{"process", "source"}), number,
			blocked.Unit, fmt.Sprintf("%s threads wait for its file system (state D)",
				phrase.Count(number)))
	}
	target := name
	if target == "" {
		target = device
	}
	f.Verify = "dmsetup info " + phrase.Shell(target)
	f.Fix = &diagnose.Fix{Command: "dmsetup resume " + phrase.Shell(target),
		Undo: "dmsetup suspend " + phrase.Shell(target),
		Risk: "medium: a snapshot or a move of data that is being made becomes inconsistent"}
	f.Cover("tasks-blocked", facts.BlockedOnDevice)
	f.Cover("io-stalled", func(o *diagnose.Finding) bool { return o.Culprit.Kind == "host" })
	f.Cover("disk-hangs", func(o *diagnose.Finding) bool { return o.Culprit.Name == device })
}
