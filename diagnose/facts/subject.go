package facts

import (
	"sort"

	"culprit/diagnose"
)

// FunctionSubject is the subject of a finding about a kernel function: where the function runs.
type FunctionSubject struct {
	// CPU "": several; Process "": softirqs, interrupts, or many processes
	Name, CPU, Process string
	Entry              Entry
}

// FailingConnects is the subject of a finding about attempts to connect that fail.
type FailingConnects struct {
	Address, Port string
	TimedOut      bool // nothing answers most of them
}

// SubjectFunction returns the function that a finding is about; an empty one when it is about none.
func SubjectFunction(f *diagnose.Finding) *FunctionSubject {
	if on, ok := f.Subject.(*FunctionSubject); ok {
		return on
	}
	return &FunctionSubject{}
}

// CoverFunction covers findings about functions that the accused process calls: f names them
// itself.
func CoverFunction(f *diagnose.Finding) {
	f.Cover("kernel-function", func(o *diagnose.Finding) bool {
		return SubjectFunction(o).Process == f.Culprit.Name && f.Culprit.Kind == "process"
	})
}

// AddKernelFunctions adds the kernel functions in which an accused program spends its CPU time. It
// reports whether there was one.
func AddKernelFunctions(l *diagnose.Look, f *diagnose.Finding, s diagnose.Period, all []Program,
	culprit diagnose.Culprit) bool {
	k := SamplesOf(l)
	for _, a := range all {
		if culprit.Kind == "process" && a.Name == culprit.Name && a.PID() == culprit.PID {
			t := l.Table(StackSamples)
			return len(k.AddFunctions(f, s, k.OfProgram(a), a.Rate, "its CPU time",
				a.Query(t, "kernel"))) > 0
		}
	}
	return false
}

// Largest returns the word with the largest number, the first of equal ones.
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

// Total returns the sum of all numbers.
func Total(of map[string]float64) (sum float64) {
	for _, v := range of {
		sum += v
	}
	return sum
}
