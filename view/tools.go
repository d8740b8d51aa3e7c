package view

// Tools lists all tools, in the order of the help.
func Tools() []*Tool {
	return []*Tool{CPU(), NIC()}
}
