package classic

import "culprit/view"

// All returns all tools, in the order of the help.
func All() []*view.Tool {
	return []*view.Tool{
		Use(),
		CPU(),
		IRQ(),
		Mem(),
		Disk(),
		DF(),
		NIC(),
		TCP(),
		Flows(),
		Link(),
		PS(),
		Caches(),
	}
}
