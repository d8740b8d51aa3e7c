package tool

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"culprit/lang/words"
)

// Macros returns the definitions NAME=VALUE of a script's options, from the values that were given,
// by the names of the options, and from the operands. The error says which value is wrong and what
// it must be.
func (t *Tool) Macros(given map[string]string, operands []string) ([]string, error) {
	if len(operands) > len(t.Operands) {
		return nil, fmt.Errorf("%s: %q is one operand too many; usage: %s",
			t.Name, operands[len(t.Operands)], t.Usage())
	}
	var out []string
	add := func(o *Option, value string, ok bool) error {
		shown := o.Name
		if !ok {
			if value = o.Default; value == "none" && o.Kind != Interval {
				return nil
			}
			if value == `""` {
				value = ""
			}
		} else if o.Name != o.Macro() {
			shown = "--" + o.Name
		}
		text, err := o.text(value, ok)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", t.Name, shown, err)
		}
		out = append(out, text...)
		return nil
	}
	for i := range t.Options {
		value, ok := given[t.Options[i].Name]
		if err := add(&t.Options[i], value, ok); err != nil {
			return nil, err
		}
	}
	for i := range t.Operands {
		o, value := &t.Operands[i], ""
		ok := i < len(operands)
		if ok {
			value = operands[i]
		} else if o.Required() {
			return nil, fmt.Errorf("%s: give %s, %s; usage: %s", t.Name, o.Name, o.Means,
				t.Usage())
		}
		if err := add(o, value, ok); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Usage returns the command line of a tool.
func (t *Tool) Usage() string {
	usage := "culprit trace " + t.Name + " [options]"
	end := ""
	for i := range t.Operands {
		o := &t.Operands[i]
		if !o.Required() {
			usage += " [" + o.Name
			end += "]"
			continue
		}
		usage += " " + o.Name
	}
	return usage + end
}

// wordText is what a WORD or a PROBE may contain.
var wordText = regexp.MustCompile(`^[\w.*?/+@~:$\[\]!-]+$`)

// isWord reports whether a value is one word of D, without the begin of a comment.
func isWord(value string) bool {
	return wordText.MatchString(value) && !strings.Contains(value, "//") &&
		!strings.Contains(value, "/*")
}

// text returns the definitions of the option's macros. given is false for the default.
func (o *Option) text(value string, given bool) ([]string, error) {
	name := o.Macro()
	define := func(value string) ([]string, error) { return []string{name + "=" + value}, nil }
	switch o.Kind {
	case Flag:
		if value == "true" || value == "1" {
			return define("1")
		}
		return define("0")
	case Number:
		if value == "$target" {
			return define(value)
		}
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil {
			return nil, fmt.Errorf("%q is no whole number of 0 or more", value)
		}
		return define(strconv.FormatUint(n, 10))
	case Text:
		if len(value) > 250 {
			return nil, fmt.Errorf("a text of %d bytes is too long: 250 are the most", len(value))
		}
		return define(literal(value))
	case Word:
		if !isWord(value) {
			return nil, fmt.Errorf("%q: a name has letters, digits and . * ? / + @ ~ : $ - _",
				value)
		}
		return define(value)
	case Code:
		if strings.ContainsAny(value, "{};\n") || strings.TrimSpace(value) == "" {
			return nil, fmt.Errorf("%q: write one expression of D", value)
		}
		return define("(" + value + ")")
	case Probe:
		return o.probe(value)
	case Interval:
		if !given && value == "none" {
			return define("10000d")
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || !(n >= 0.01 && n <= 1e8) {
			return nil, fmt.Errorf("%q is no number of seconds from 0.01 to 100000000", value)
		}
		return define(strconv.FormatInt(time.Duration(n*1e9).Milliseconds(), 10) + "ms")
	}
	return nil, fmt.Errorf("%s is no kind of values", o.Kind)
}

// literal returns a string literal of D.
func literal(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		if c < ' ' || c == '"' || c == '\\' || c > '~' {
			fmt.Fprintf(&b, `\%03o`, c)
			continue
		}
		b.WriteByte(c)
	}
	b.WriteByte('"')
	return b.String()
}

// probe defines the macro as a probe description, and NAME_RETURN as that of the return of the
// same function where it is one.
func (o *Option) probe(value string) ([]string, error) {
	if !isWord(value) {
		return nil, fmt.Errorf("%q is no probe; write vfs_read, c:malloc, t:sched:sched_switch "+
			"or a probe of D", value)
	}
	name := o.Macro()
	d := describe(value)
	out := []string{name + "=" + d}
	switch provider, _, _ := strings.Cut(d, ":"); provider {
	case "uprobe":
		out = append(out, name+"_RETURN=uretprobe"+strings.TrimPrefix(d, "uprobe"))
	case "fbt", "syscall":
		if entry, ok := strings.CutSuffix(d, ":entry"); ok {
			out = append(out, name+"_RETURN="+entry+":return")
		}
	}
	return out, nil
}

// describe returns a probe of bcc or bpftrace as a description of D: vfs_read and p::vfs_read are
// fbt::vfs_read:entry, c:malloc and p:c:malloc are uprobe:libc:malloc:, t:sched:sched_switch is
// tracepoint:sched::sched_switch, u:c:setjmp is usdt:libc:*:setjmp. A description of D stays.
func describe(value string) string {
	parts := strings.Split(value, ":")
	for i, p := range parts {
		if p == "c" && i == len(parts)-2 {
			parts[i] = "libc"
		}
	}
	value = strings.Join(parts, ":")
	switch len(parts) {
	case 1:
		name := strings.TrimPrefix(value, "__x64_")
		if call, ok := strings.CutPrefix(name, "sys_"); ok {
			return "syscall::" + call + ":entry"
		}
		return "fbt::" + value + ":entry"
	case 3:
		if described := describeThree(parts); described != "" {
			return described
		}
	}
	if d := words.ProbeInD(value); d != "" {
		return d
	}
	if len(parts) == 2 {
		return "uprobe:" + parts[0] + ":" + parts[1] + ":"
	}
	return value
}

// describeThree describes a probe of three parts in the form of bcc: KIND:FILE:FUNCTION.
func describeThree(parts []string) string {
	file, function := parts[1], parts[2]
	switch kind := parts[0]; {
	case kind == "u":
		return "usdt:" + file + ":*:" + function
	case kind == "p" && file == "":
		return "fbt::" + function + ":entry"
	case kind == "r" && file == "":
		return "fbt::" + function + ":return"
	case kind == "p":
		return "uprobe:" + file + ":" + function + ":"
	case kind == "r":
		return "uretprobe:" + file + ":" + function + ":"
	}
	return ""
}
