package main

import (
	"culprit/collect"
	"culprit/collect/all"
	"culprit/measure"
	"culprit/trace"
	"culprit/trace/family"
)

// sources returns the sources of this machine: the collectors of the kernel's counters, and the
// families of traced statistics. budget is the highest cost of each family; 0: no limit.
func sources(env collect.Env, budget trace.Budget) []measure.Source {
	list := []measure.Source{collect.New(env, all.Collectors()...)}
	for _, f := range family.Families(budget) {
		list = append(list, f)
	}
	return list
}
