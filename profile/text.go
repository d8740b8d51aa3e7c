package profile

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"culprit/measure"
)

// maxName is the number of bytes of a name in a picture. Names can have ten thousand.
const maxName = 1000

// shortened cuts a name to at most limit bytes, between characters, and appends its length.
func shortened(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + "... (" + thousands(strconv.Itoa(len(name))) + " bytes)"
}

// AppendXML appends a text as character data of XML and HTML, also for attributes in double quotes.
// It escapes markup. It replaces control characters, invalid UTF-8 and characters that change the
// direction of text by U+FFFD: the last could disguise a name.
func AppendXML(b []byte, s string) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			switch {
			case c == '&':
				b = append(b, "&amp;"...)
			case c == '<':
				b = append(b, "&lt;"...)
			case c == '>':
				b = append(b, "&gt;"...)
			case c == '"':
				b = append(b, "&quot;"...)
			case c == '\'':
				b = append(b, "&#39;"...)
			case c < ' ' || c == 0x7f:
				b = append(b, "\uFFFD"...)
			default:
				b = append(b, c)
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if !measure.IsShown(r) {
			r = utf8.RuneError
		}
		b = utf8.AppendRune(b, r)
		i += n
	}
	return b
}

// clean returns a text as one line without characters that control a terminal.
func clean(s string) string {
	plain := true
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	return strings.Map(func(r rune) rune {
		if !measure.IsShown(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// amount formats an amount for people: 12,345, 0.25.
func amount(v float64) string { return string(appendRead(nil, v)) }

// appendRead appends an amount in the form of amount.
func appendRead(b []byte, v float64) []byte {
	from := len(b)
	if v != math.Trunc(v) && math.Abs(v) < 1e6 {
		b = strconv.AppendFloat(b, v, 'f', 3, 64)
		return append(b[:from], bytes.TrimRight(bytes.TrimRight(b[from:], "0"), ".")...)
	}
	b = strconv.AppendFloat(b, math.Round(v), 'f', 0, 64)
	if v < 0 {
		from++
	}
	for i := len(b) - 3; i > from; i -= 3 {
		b = slices.Insert(b, i, ',')
	}
	return b
}

// share formats a part of a whole in percent with two decimals.
func share(part, whole float64) string { return string(appendShare(nil, part, whole)) }

// appendShare appends the text that share returns.
func appendShare(b []byte, part, whole float64) []byte {
	if whole == 0 {
		return append(b, "0.00%"...)
	}
	return append(strconv.AppendFloat(b, 100*part/whole, 'f', 2, 64), '%')
}
