package command

import (
	"fmt"
	"strings"

	"culprit/lang/syntax"
	"culprit/trace/stop"
)

// stopAt returns where commands are stopped. Probes of processes need their libraries mapped. All
// other scripts trace a command from its first instruction.
func (r *Request) stopAt(s source) (stop.Place, error) {
	tree, _ := syntax.Parse(s.text, s.mode) // Compile returns the errors
	settings := r.settings()
	own := false
	if tree != nil {
		for _, item := range tree.Items {
			switch item := item.(type) {
			case *syntax.Pragma:
				_, given := settings["evaltime"]
				if !given && item.Name.Text == "evaltime" && item.Set {
					settings["evaltime"] = item.Value.Text
				}
			case *syntax.Clause:
				for _, p := range item.Probes {
					own = own || strings.Contains(p.Provider.Text, "$") ||
						strings.HasPrefix(p.Provider.Text, "pid")
				}
			}
		}
	}
	switch word, given := settings["evaltime"]; {
	case !given && own:
		return stop.Postinit, nil
	case !given:
		return stop.Exec, nil
	case word == string(stop.Exec),
		word == string(stop.Preinit),
		word == string(stop.Postinit),
		word == string(stop.Main):
		return stop.Place(word), nil
	default:
		return "", fmt.Errorf("-x evaltime=%s: write exec, preinit, postinit or main", word)
	}
}
