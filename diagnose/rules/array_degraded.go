package rules

import (
	"fmt"
	"strconv"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
)

// arrayDegraded finds md arrays that lack members, and those that are being synchronized: both slow
// down the traffic of their disks. A check that somebody asked for is no fault.
func arrayDegraded() diagnose.Rule {
	return diagnose.Rule{
		ID: "array-degraded", Checks: "md arrays", About: "disk",
		Finds: []string{facts.ArrayMissing},
		Uses:  []string{facts.ArraySync},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.ArrayMissing)
			for _, device := range t.Keys("device") {
				if device == "" {
					continue
				}
				rows := t.Where("device", device)
				missing := make([]float64, len(t.Seconds))
				for c := range missing {
					for _, r := range rows { // another row for each action
						missing[c] = max(missing[c], series.Or(r.At(c), 0))
					}
				}
				now := rows[len(rows)-1]
				for _, r := range rows {
					if r.At(len(t.Seconds)-1) >= 0 {
						now = r
					}
				}
				if s, ok := diagnose.Lasting(t, nil,
					func(c int) bool { return missing[c] > 0 }); ok {
					accuseDegraded(l, now, t.Mean(missing, s.Mask), s)
				} else if s, ok := diagnose.Lasting(t, nil,
					func(c int) bool { return now.At(c) >= 0 }); ok && rebuilds(now) {
					accuseSync(l, now, s)
				}
			}
		},
	}
}

// rebuilds reports whether an array writes data that it must have: after a crash, onto a new
// member, or in a new layout.
func rebuilds(r *diagnose.Row) bool {
	switch r.Word("action") {
	case "resync", "recover", "reshape":
		return true
	}
	return false
}

// redundant reports whether an array of a level survives the loss of another member. A raid10 may
// or may not.
func redundant(level string, members, missing float64) bool {
	return level == "raid1" && members-missing >= 2 || level == "raid6" && missing < 2
}

func accuseDegraded(l *diagnose.Look, r *diagnose.Row, missing float64, s diagnose.Period) {
	device, level := r.Word("device"), r.Word("level")
	members, err := strconv.Atoi(r.Word("members"))
	of := ""
	if err == nil && members > 0 {
		of = fmt.Sprintf(" of %d", members)
	}
	severity, risk := diagnose.Medium, "the loss of another one may lose data"
	if redundant(level, float64(members), missing) {
		severity, risk = diagnose.Low, "it survives the loss of another one"
	}
	progress, row := syncProgress(l, device)
	f := l.Found(phrase.Clean(device), severity, 0.95,
		diagnose.Culprit{Kind: "disk", Name: device}, fmt.Sprintf(
			"Array %s (%s) is degraded: it lacks %s%s members, and %s.%s", phrase.Clean(device),
			phrase.Clean(level), phrase.Count(missing), of, risk, progress))
	f.AddEvidence(r.Table, s, r.Query(), missing, r.Table.Unit, fmt.Sprintf(
		"it lacks %s%s members", phrase.Count(missing), of))
	addSync(f, row, s)
	if progress == "" {
		f.AddCaveat(0.1, "An array that was made with more members than disks shows the same.")
	}
	f.Verify = "cat /proc/mdstat; mdadm --detail /dev/" + phrase.Shell(device)
}

func accuseSync(l *diagnose.Look, r *diagnose.Row, s diagnose.Period) {
	device := r.Word("device")
	progress, row := syncProgress(l, device)
	if progress == "" {
		return // it waits for another array, or has just ended
	}
	f := l.Found(phrase.Clean(device), diagnose.Low, 0.95,
		diagnose.Culprit{Kind: "disk", Name: device}, fmt.Sprintf(
			"Array %s (%s) lacks no member and is being synchronized (%s).%s", phrase.Clean(device),
			phrase.Clean(r.Word("level")), phrase.Clean(r.Word("action")), progress))
	addSync(f, row, s)
	f.Verify = "cat /proc/mdstat"
	f.Fix = &diagnose.Fix{Command: "sysctl dev.raid.speed_limit_max=20000",
		Undo: "sysctl dev.raid.speed_limit_max=200000",
		Risk: "low: it takes longer; 200000 kB/s is the default of the kernel, restore yours"}
}

func addSync(f *diagnose.Finding, row *diagnose.Row, s diagnose.Period) {
	if row != nil {
		f.AddEvidence(row.Table, s, row.Query(), row.Last(), row.Table.Unit, fmt.Sprintf(
			"%s of each member are synchronized so far", phrase.Memory(row.Last())))
	}
}

// syncProgress returns how far an array that rebuilds is, as a sentence with a space before it, and
// the row that shows it; "" and nil when it does not.
func syncProgress(l *diagnose.Look, device string) (string, *diagnose.Row) {
	t := l.Table(facts.ArraySync)
	for _, done := range t.Where("device", device, "kind", "done") {
		total := t.One("device", device, "kind", "total", "action", done.Word("action")).Last()
		if !rebuilds(done) || !(done.At(len(t.Seconds)-1) >= 0) || !(total > 0) {
			continue
		}
		text := fmt.Sprintf(" %s of the synchronization is done", phrase.Percent(done.Last()/total))
		if rate := facts.PerSecond(t, done); rate > 0 {
			text += fmt.Sprintf(", %s: the rest takes %s", phrase.BytesRate(rate),
				phrase.Ahead((total-done.Last())/rate))
		}
		return text + ".", done
	}
	return "", nil
}
