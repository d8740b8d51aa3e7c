package view

import "strings"

// CommaList joins the parts of a list that was split at a comma written as \, : a process may have
// a comma in its name. [`a\` "b" "c"] is ["a,b" "c"].
func CommaList(parts []string) []string {
	var list []string
	open := false
	for _, p := range parts {
		text, escaped := strings.CutSuffix(p, `\`)
		if open {
			list[len(list)-1] += "," + text
		} else {
			list = append(list, text)
		}
		open = escaped
	}
	if open { // a backslash at the end of all stands for itself
		list[len(list)-1] += `\`
	}
	return list
}
