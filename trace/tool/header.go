package tool

import (
	"fmt"
	"slices"
	"strings"
)

// parse reads the declarations of a script. It fails for a line that declares nothing.
func parse(text string) (*Tool, error) {
	head, _, ok := strings.Cut(text, "*/")
	if !ok || !strings.HasPrefix(head, "/*") {
		return nil, fmt.Errorf("a comment with the declarations must stand first")
	}
	t := &Tool{Text: text}
	for i, line := range strings.Split(strings.TrimPrefix(head, "/*"), "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "*"))
		if line == "" {
			continue
		}
		if err := t.declare(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if t.Name == "" {
		return nil, fmt.Errorf("tool NAME: PURPOSE is missing")
	}
	return t, nil
}

// declare reads one declaration.
func (t *Tool) declare(line string) error {
	left, means, ok := strings.Cut(line, ": ")
	words := strings.Fields(left)
	if !ok || means == "" || len(words) == 0 {
		return fmt.Errorf("%q: a declaration is WHAT: MEANING", line)
	}
	switch words[0] {
	case "needs":
		t.Needs = append(t.Needs, means)
		return nil
	case "note":
		t.Notes = append(t.Notes, means)
		return nil
	}
	if len(words) < 2 {
		return fmt.Errorf("%q: %s has no name", line, words[0])
	}
	switch words[0] {
	case "tool":
		t.Name, t.Purpose = words[1], means
	case "column":
		c := Column{Name: words[1], Means: means}
		if len(words) > 2 {
			c.Unit = strings.Trim(strings.Join(words[2:], " "), "()")
		}
		t.Columns = append(t.Columns, c)
	case "option", "operand":
		o, err := option(words[1:], means)
		if err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		if words[0] == "operand" {
			t.Operands = append(t.Operands, o)
		} else {
			t.Options = append(t.Options, o)
		}
	default:
		return fmt.Errorf("%q: %s is no declaration", line, words[0])
	}
	return nil
}

// option reads [-p] [--]pid [KIND] [= DEFAULT [UNIT]].
func option(words []string, means string) (Option, error) {
	o := Option{Kind: Flag, Default: "0", Means: means}
	if short, ok := strings.CutPrefix(words[0], "-"); ok && len(short) == 1 {
		o.Short, words = short, words[1:]
	}
	if len(words) == 0 {
		return o, fmt.Errorf("the long name is missing")
	}
	o.Name, words = strings.TrimPrefix(words[0], "--"), words[1:]
	if len(words) > 0 && words[0] != "=" {
		o.Kind, words = Kind(words[0]), words[1:]
		o.Default = "none"
		kinds := []Kind{Flag, Number, Text, Word, Probe, Code, Interval}
		if !slices.Contains(kinds, o.Kind) {
			return o, fmt.Errorf("%s is no kind of values", o.Kind)
		}
	}
	if len(words) > 1 && words[0] == "=" {
		o.Default = words[1]
		o.Unit = strings.Join(words[2:], " ")
	}
	return o, nil
}

// Macro returns the name of the option's macro.
func (o *Option) Macro() string {
	return strings.ToUpper(strings.ReplaceAll(o.Name, "-", "_"))
}

// Required reports whether an operand must be given.
func (o *Option) Required() bool { return o.Default == "none" && o.Kind != Interval }
