package facts

import "culprit/diagnose"

// Starvation is the subject of a finding about processes that get no CPU because of their weight.
type Starvation struct {
	Most bool // theirs are most of the waits for a CPU
}

// ExplainsStarvation reports whether a finding is the root where the CPUs are full and processes of
// little weight wait. The processes are: they wait, and nobody else does. The full CPUs are: others
// wait too, or the processes may wait.
func ExplainsStarvation(cause, symptom *diagnose.Finding) bool {
	first := func(starved, full *diagnose.Finding) bool {
		s, ok := starved.Subject.(Starvation)
		return ok && s.Most && starved.Severity != diagnose.Low &&
			starved.Severity.Weight() >= full.Severity.Weight()
	}
	switch {
	case cause.Rule == "cpu-starved" && symptom.Rule == "cpu-saturated":
		return first(cause, symptom)
	case cause.Rule == "cpu-saturated" && symptom.Rule == "cpu-starved":
		return !first(symptom, cause)
	}
	return false
}
