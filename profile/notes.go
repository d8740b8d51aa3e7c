package profile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// othersNote returns the note about samples of other events.
func othersNote(event string, others map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(others)) {
		count := plural(others[name], "sample", "samples")
		all = append(all, fmt.Sprintf("%s (%s)", clean(shortened(name, 60)), count))
	}
	if len(all) > 8 {
		all = append(all[:8], "and others")
	}
	if event == "" {
		return "there are " + strings.Join(all, ", ")
	}
	return fmt.Sprintf("samples of %s alone; left out: %s, which --event shows",
		clean(shortened(event, 60)), strings.Join(all, ", "))
}
