package trace

import (
	"strconv"

	"culprit/lang/ir"
)

// table: dtrace's tag and words of each kind of drop, whether the words name the CPU, and a hint.
var dropWords = [ir.DropCount]struct {
	tag, what string
	cpu       bool
	help      string
}{
	ir.DropRecord: {
		"PRINCIPAL",
		"drop",
		true,
		"records were written faster than they were read: -x bufsize=64m allows more",
	},
	ir.DropAgg: {
		"AGGREGATION",
		"aggregation drop",
		true,
		"there are more keys than fit: -x aggsize=64m allows more",
	},
	ir.DropDynamic: {
		"DYNAMIC",
		"dynamic variable drop",
		false,
		"there are more elements or threads than fit: -x dynvarsize=64m allows more",
	},
	ir.DropStack: {
		"STKSTROVERFLOW",
		"stack drop",
		false,
		"more different stacks came than fit; those events have an empty stack",
	},
	ir.DropSpec: {"SPECUNAVAIL", "failed speculation", false, "no speculative buffer available"},
	ir.DropHeld: {
		"SPEC",
		"speculative drop",
		false,
		"a speculation recorded more than fits: -x specsize=64m allows more",
	},
	ir.DropNested: {
		"PRINCIPAL",
		"lost firing",
		true,
		"probes fired within probes, deeper than the scratch memory allows",
	},
	ir.DropLate: {
		"PRINCIPAL",
		"missed firing",
		false,
		"ticks that were more than 65536 firings late, or late at the end; " +
			"those that are less late run later",
	},
	ir.DropMissed: {
		"PRINCIPAL",
		"missed firing",
		false,
		"the kernel leaves out a probe that fires while its program runs on that CPU, " +
			"and returns when too many calls are open",
	},
}

// Drops prints how many events were lost, and how to lose fewer. It never fails.
func (p *Printer) Drops(kind ir.Drop, cpu int, n uint64) error {
	w := dropWords[kind]
	text := strconv.FormatUint(n, 10) + " " + w.what
	if n != 1 {
		text += "s"
	}
	if w.cpu {
		text += " on CPU " + strconv.Itoa(cpu)
	}
	if p.tags {
		text = "[DTRACEDROP_" + w.tag + "] " + text
	} else {
		text += " (" + w.help + ")"
	}
	p.Say("%s", text)
	return nil
}
