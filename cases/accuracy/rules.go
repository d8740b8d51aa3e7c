package main

import (
	"fmt"
	"strings"
)

// ruleWithoutRow is a rule that no story of the lab can show here.
type ruleWithoutRow struct {
	rule, shown, why string
}

// rulesWithoutRow returns the rules that are in no table of the page. TestRulesWithoutRow compares
// them with the stories of the lab and the rules of the diagnosis.
func rulesWithoutRow() []ruleWithoutRow {
	const emulated, recorded = "emulated machine", "written numbers"
	return []ruleWithoutRow{
		{"array-degraded", emulated, "the lab makes no md arrays of the machine it runs on"},
		{"clock-slow", emulated, "the clock belongs to the whole machine"},
		{"clock-steps", emulated, "the clock belongs to the whole machine"},
		{"compaction-stalls", recorded, "fragmented memory of 1 GiB in an emulated machine did " +
			"not make allocations wait"},
		{"cpu-slow", recorded, "virtual machines show neither frequencies nor heat"},
		{"cpu-softirq", recorded, "a companion of table-long, never the culprit of a story"},
		{"disk-suspended", emulated, "the lab makes no devices of device mapper"},
		{"fork-storm", recorded, "with busy CPUs cpu-saturated names the parent, and a story " +
			"would need CPUs that nothing else uses"},
		{"numa-remote", emulated, "the lab's machine has one NUMA node"},
	}
}

const rulesText = `
## Rules without a row

Every other rule is the culprit of a story above, or of one that has no run yet. These are not:

* **emulated machine**: ` +
	"`CULPRIT_EMULATED=all go test ./cases -run TestEmulatedStories`" + ` boots a
  kernel in QEMU, makes the fault and its twin there, and compares the diagnosis. Times are not
  measured.
* **written numbers**: the rule is tested with numbers that somebody wrote or captured
  (` + "`diagnose/rules/testdata`" + `), and was not tried on a live fault of its own.

Stories of control groups are played on version 2 by ` + "`TestVersion2Stories`" + `, in the same emulated
machine: memory-high has no row, because the machines that were measured have version 1.

| rule | shown by | why |
|---|---|---|
`

// writeRules writes the rules without a row.
func writeRules(b *strings.Builder) {
	b.WriteString(rulesText)
	for _, r := range rulesWithoutRow() {
		fmt.Fprintf(b, "| %s | %s | %s |\n", r.rule, r.shown, r.why)
	}
}
