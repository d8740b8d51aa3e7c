package view

import "strings"

// CommaList joins the parts of a list that was split at escaped commas: `\,` is a comma within a
// name. [`a\` "b" "c"] becomes ["a,b" "c"].
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
	if open { // a backslash at the end of the list is itself
		list[len(list)-1] += `\`
	}
	return list
}
