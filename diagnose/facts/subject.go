package facts

import (
	"sort"

	"culprit/diagnose"
)

// FunctionSubject is where the function of a finding runs, for findings that tell of it themselves.
type FunctionSubject struct {
	Name, CPU, Process string // cpu "": on several; process "": of softirqs, interrupts, or of many
	Entry              Entry
}

// SubjectFunction returns the function that a finding is about; an empty one where it is about none.
func SubjectFunction(f *diagnose.Finding) *FunctionSubject {
	if on, ok := f.Subject.(*FunctionSubject); ok {
		return on
	}
	return &FunctionSubject{}
}

// CoverFunction adds the function that the accused process asks the kernel for: the finding names it itself.
func CoverFunction(f *diagnose.Finding) {
	f.Cover("kernel-function", func(o *diagnose.Finding) bool {
		return SubjectFunction(o).Process == f.Culprit.Name && f.Culprit.Kind == "process"
	})
}

// AddKernelFunctions adds the functions of the kernel that an accused group of processes spends its CPU time in.
func AddKernelFunctions(l *diagnose.Look, f *diagnose.Finding, s diagnose.Period, all []Program, culprit diagnose.Culprit) bool {
	k := SamplesOf(l)
	for _, a := range all {
		if culprit.Kind == "process" && a.Name == culprit.Name && a.PID() == culprit.PID {
			t := l.Table(StackSamples)
			return len(k.AddFunctions(f, s, k.OfProgram(a), a.Rate, "its CPU time", a.Query(t, "kernel"))) > 0
		}
	}
	return false
}

// Largest gives the word with the largest number, of equal ones the first.
func Largest(of map[string]float64) string {
	var all []string
	for w := range of {
		all = append(all, w)
	}
	sort.Slice(all, func(i, j int) bool {
		if of[all[i]] != of[all[j]] {
			return of[all[i]] > of[all[j]]
		}
		return all[i] < all[j]
	})
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// Total adds up.
func Total(of map[string]float64) (sum float64) {
	for _, v := range of {
		sum += v
	}
	return sum
}
