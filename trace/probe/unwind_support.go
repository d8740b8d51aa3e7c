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

// unwindNeeds are the features that programs need to walk stacks of processes by unwind tables.
// table: never changed
var unwindNeeds = [...]feature.Feature{
	feature.BPFLoop,
	feature.CurrentTask,
	feature.TaskRegisters,
	feature.HashOnDemand,
}

// UnwindTablesMissing returns why programs can't walk stacks of processes by unwind tables, or nil.
// If the kernel is too old, the error names the version that has all features.
func (k *kernelInfo) UnwindTablesMissing() error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("unwind tables are for x86-64: %w", measure.ErrUnsupported)
	}
	if _, err := k.MemberOffset("task_struct", "mm"); err != nil {
		return err
	}
	for _, f := range slices.Backward(unwindNeeds[:]) { // the newest first
		if err := f.Have(k.root); err != nil {
			return err
		}
	}
	return nil
}

// walksByTables reports whether user stacks are walked by tables, as the option unwind and the
// kernel decide. It fails when the option demands tables and the kernel cannot use them.
func (k *kernelInfo) walksByTables(p *ir.Program) (bool, error) {
	how := p.Source.Options.All["unwind"]
	if how == "fp" || !gen.WantsUserFrames(p) {
		return false, nil
	}
	why := k.UnwindTablesMissing()
	if how == "tables" && why != nil {
		return false, fmt.Errorf("walk user stacks by tables (-x unwind=tables): %w", why)
	}
	return why == nil, nil
}
