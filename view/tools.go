package view

// Tools returns all tools, in the order of the help.
func Tools() []*Tool {
	return []*Tool{
		Use(),
		CPU(),
		IRQ(),
		Mem(),
		Disk(),
		NIC(),
		TCP(),
		Flows(),
		Link(),
		PS(),
		Caches(),
	}
}
