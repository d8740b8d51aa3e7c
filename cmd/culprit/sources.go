package main

import (
	"culprit/collect"
	"culprit/collect/all"
	"culprit/measure"
	"culprit/trace"
	"culprit/trace/family"
)

// sources lists what measures this machine: what the kernel counts by itself, and what programs in
// the kernel measure for who asks, each of which may take the budget.
func sources(env collect.Env, budget trace.Budget) []measure.Source {
	list := []measure.Source{collect.New(env, all.Collectors()...)}
	for _, f := range family.Families(budget) {
		list = append(list, f)
	}
	return list
}
