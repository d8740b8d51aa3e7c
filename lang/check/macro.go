package check

import (
	"strconv"
	"strings"

	"culprit/lang/syntax"
)

// Macro returns the value of a macro of the text, such as $1 and $target. It has the form of
// syntax.Mode.Macros.
func (o Options) Macro(name string) (string, bool) {
	if name == "" {
		return "", false
	}
	if name[0] >= '0' && name[0] <= '9' {
		n, err := strconv.Atoi(name)
		if err == nil && n < len(o.Args) {
			return o.Args[n], true
		}
		return "", o.DefaultArgs
	}
	if name == "target" {
		return strconv.FormatInt(o.Target, 10), o.Target != 0
	}
	v, ok := o.Words[name]
	return v, ok
}

// macro returns the value of a macro that the parser left in the tree.
func (c *checker) macro(e *syntax.Macro) value {
	text, ok := c.o.Macro(e.Name)
	if !ok {
		return value{} // already reported
	}
	if !e.Quoted {
		if text == "" {
			return number(e.At(), tInt, 0)
		}
		if n, err := strconv.ParseInt(text, 0, 64); err == nil {
			if n == int64(int32(n)) {
				return number(e.At(), tInt, n)
			}
			return number(e.At(), tLong, n)
		}
	}
	if !e.Quoted && isName(text) {
		return c.identifier(&syntax.Ident{Span: e.At(), Name: text})
	}
	return value{x: &Text{typed{e.At(), tString}, strings.Trim(text, `"`)}, t: tString}
}

// isName reports whether a text is a valid name of D.
func isName(s string) bool {
	for i := range len(s) {
		if b := s[i]; b != '_' && (b|0x20 < 'a' || b|0x20 > 'z') && (i == 0 || b < '0' || b > '9') {
			return false
		}
	}
	return s != ""
}

// unusedMacros reports arguments that the text does not use.
func (c *checker) unusedMacros() {
	if _, any := c.o.All["argref"]; any || c.o.DefaultArgs {
		return
	}
	used := map[int]bool{0: true}
	for i := 0; i < len(c.text); i++ {
		if c.text[i] != '$' {
			continue
		}
		j := i
		for j < len(c.text) && c.text[j] == '$' {
			j++
		}
		k := j
		for k < len(c.text) && c.text[k] >= '0' && c.text[k] <= '9' {
			k++
		}
		if n, err := strconv.Atoi(c.text[j:k]); err == nil {
			used[n] = true
		}
	}
	for i, a := range c.o.Args {
		if !used[i] {
			c.fail(
				syntax.Span{}, UnusedArgument, "D_MACRO_UNUSED",
				"unused argument %q: the program does not contain $%d", a, i,
			)
			return
		}
	}
}
