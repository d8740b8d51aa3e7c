package term

import (
	"strings"
)

const helpWidth = 96 // width of help texts in columns

// reflow wraps the paragraphs of a text at the width. Paragraphs are separated by empty lines.
func reflow(text string, width int) string {
	var out []string
	for _, paragraph := range strings.Split(text, "\n\n") {
		line := ""
		for _, word := range strings.Fields(paragraph) {
			switch {
			case line == "":
				line = word
			case len(line)+1+len(word) > width:
				out = append(out, line)
				line = word
			default:
				line += " " + word
			}
		}
		out = append(out, line, "")
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}

const intervals = `Without an interval it shows one line or table; with an interval it continues until Ctrl-C or until the
count, and then prints the average. Each line covers the time that was measured, also the first. "-"
(null in JSON) means not known; shares are ratios from 0 to 1 in JSON and CSV.

With --from and --to, or --at, it shows what culprit serve recorded, in the same columns: one line
over all of that time, or with an interval one line for each. Time that was not recorded is reported
and never shown as 0.`
