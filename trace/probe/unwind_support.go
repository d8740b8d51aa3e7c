package probe

import (
	"fmt"
	"runtime"
	"slices"

	"culprit/kernel/feature"
	"culprit/lang/gen"
	"culprit/lang/ir"
	"culprit/measure"
)

// unwindNeeds are what programs need to walk the stacks of processes by tables.
// table: never changed
var unwindNeeds = [...]feature.Feature{
	feature.BPFLoop,
	feature.CurrentTask,
	feature.TaskRegisters,
	feature.HashOnDemand,
}

// UnwindTablesMissing returns why programs can't walk the stacks of processes by unwind tables, or
// nil. Where the kernel is too old, the error names the newest version among those that brought
// what is missing.
func (e *Env) UnwindTablesMissing() error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("unwind tables are for x86-64: %w", measure.ErrUnsupported)
	}
	if _, err := e.MemberOffset("task_struct", "mm"); err != nil {
		return err
	}
	for _, f := range slices.Backward(unwindNeeds[:]) { // the newest first
		if err := f.Have(e.root); err != nil {
			return err
		}
	}
	return nil
}

// walksByTables decides by the option unwind, and by what the kernel can, whether user stacks are
// walked by tables.
func (e *Env) walksByTables(p *ir.Program) (bool, error) {
	how := p.Source.Options.All["unwind"]
	if how == "fp" || !gen.WantsUserFrames(p) {
		return false, nil
	}
	why := e.UnwindTablesMissing()
	if how == "tables" && why != nil {
		return false, fmt.Errorf("walk user stacks by tables (-x unwind=tables): %w", why)
	}
	return why == nil, nil
}
