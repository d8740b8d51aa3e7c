package family

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/trace/probe"
)

// An optional is a probe, or an argument of a probe, that some kernels lack.
type optional struct {
	probe    string
	argument int // from 0; -1: the probe itself
}

// optionalOf parses "optional PROBE" and "optional argN of PROBE".
func optionalOf(words []string) (optional, error) {
	switch len(words) {
	case 2:
		return optional{words[1], -1}, nil
	case 4:
		number, isArg := strings.CutPrefix(words[1], "arg")
		n, err := strconv.Atoi(number)
		if isArg && err == nil && n >= 0 && words[2] == "of" {
			return optional{words[3], n}, nil
		}
	}
	return optional{}, errors.New(`want "optional PROBE" or "optional argN of PROBE"`)
}

// dropOptional removes the clauses of optional probes that this kernel lacks, and replaces optional
// arguments that it lacks by 0.
func (f *Family) dropOptional(tree *syntax.Program, env *probe.Env) {
	for _, o := range f.maybe {
		tree.Items = slices.DeleteFunc(tree.Items, func(item syntax.Item) bool {
			c, ok := item.(*syntax.Clause)
			if !ok || len(c.Probes) != 1 || syntax.Print(c.Probes[0]) != o.probe {
				return false
			}
			probes, err := env.Probes(c.Probes[0])
			if o.argument < 0 {
				return err != nil
			}
			for _, p := range probes {
				if list, why := p.Arguments(); why == "" && len(list) <= o.argument {
					withoutArgument(c, o.argument)
				}
			}
			return false
		})
	}
}

// withoutArgument sets variables that a clause sets to an argument to 0 instead.
func withoutArgument(c *syntax.Clause, n int) {
	syntax.Walk(c.Body, func(node syntax.Node) bool {
		if set, ok := node.(*syntax.Assign); ok {
			if id, ok := set.Y.(*syntax.Ident); ok && id.Name == "arg"+strconv.Itoa(n) {
				set.Y = integer(0)
			}
		}
		return true
	})
}

// missing returns a measure.ErrUnsupported if the kernel is older than the probes of the family.
func (f *Family) missing(tree *syntax.Program, env *probe.Env) error {
	if f.from == "" {
		return nil
	}
	for _, item := range tree.Items {
		c, ok := item.(*syntax.Clause)
		if !ok {
			continue
		}
		for _, p := range c.Probes {
			if _, err := env.Probes(p); err != nil {
				return fmt.Errorf(
					"%w: needs Linux %s, this kernel lacks the probe %s", measure.ErrUnsupported,
					f.from, syntax.Print(p),
				)
			}
		}
	}
	return nil
}
