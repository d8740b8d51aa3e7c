package command

import (
	"errors"
	"strings"
)

// splitCommand returns the words of a command line. White space separates words. Text in single or
// double quotes belongs to one word. Outside of single quotes a backslash escapes the next
// character. Nothing is expanded. It fails when a quote is not closed.
func splitCommand(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	in, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\' && quote != '\'' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
			in = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case strings.IndexByte(" \t\n\r\v\f", c) >= 0:
			if in {
				words = append(words, word.String())
				word.Reset()
			}
			in = false
		default:
			word.WriteByte(c)
			in = true
		}
	}
	if quote != 0 {
		return nil, errors.New(
			"-c: the quote " + string(quote) + " has no end: close it, or write \\" + string(quote),
		)
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}
