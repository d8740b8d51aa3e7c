package complete

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"culprit/lang/check"
	"culprit/lang/syntax"
	"culprit/trace/probe"

	"github.com/cilium/ebpf/btf"
)

// A Completion is what may be written in place of a part of a text.
type Completion struct {
	From, To int    // the bytes that a word replaces
	Words    []Word // at most MaxWords
	More     int    // words that are left out
}

// MaxWords is the highest number of words of a completion.
const MaxWords = 200

// Env is what words are looked up in: the probes and types of this machine. *probe.Env is one.
type Env interface {
	// BTF returns the kernel's types. The error says why there are none.
	BTF() (*btf.Spec, error)
	// Probes returns the probes that a description matches; a *probe.NoProbe if there is none.
	Probes(*syntax.Probe) ([]*check.Probe, error)
	// List calls a function with each probe that a description matches. The error says why they
	// cannot be listed.
	List(*syntax.Probe, func(probe.Listed)) error
}

// At returns what may be written at a position of a D program, in bytes. The error says that the
// position is not in the text, or that probes cannot be listed.
func At(env Env, text string, pos int) (*Completion, error) {
	if pos < 0 || pos > len(text) {
		return nil, fmt.Errorf("position %d of a text of %d bytes", pos, len(text))
	}
	p := placeAt(text, pos)
	out := &Completion{From: p.from, To: pos}
	for out.To < len(text) && p.kind != nothing && isWord(text[out.To]) {
		out.To++
	}
	var words []Word
	var err error
	switch p.kind {
	case description:
		var at int
		words, at, err = describe(env, p.prefix)
		out.From += at
	case option:
		words = beginning(namesOf(check.WordOption), p.prefix)
	case aggregation:
		for _, v := range variables(text, aggregating) {
			words = append(words, Word{v, "aggregation", ""})
		}
		words = beginning(words, p.prefix)
	case member:
		words = beginning(membersOf(env, text, &p), p.prefix)
	case expression:
		words = beginning(expressions(env, text, &p), p.prefix)
	}
	if len(words) == 1 && words[0].Text == text[out.From:out.To] {
		words = nil // it is complete
	}
	out.Words, out.More = limited(words)
	return out, err
}

func limited(words []Word) ([]Word, int) {
	n := min(len(words), MaxWords)
	return words[:n], len(words) - n
}

// expressions returns what an expression may begin with: arguments and variables first.
func expressions(env Env, text string, p *place) []Word {
	var words []Word
	args, _ := argumentsOf(env, p.probes)
	for i := range args {
		name := "args[" + strconv.Itoa(i) + "]"
		if args[i].Field != 0 && args[i].Name != "" {
			name = "args." + args[i].Name
		}
		words = append(words, Word{name, "argument", argText(&args[i])})
	}
	for _, v := range variables(text, global) {
		words = append(words, Word{v, "variable", "of this script"})
	}
	own := slices.Clone(words)
	if strings.HasSuffix(strings.TrimRight(text[:p.from], " \t"), "=") {
		statement := text[strings.LastIndexAny(text[:p.from], ";{\n")+1 : p.from]
		if strings.Contains(statement, "@") {
			return append(namesOf(check.WordAggregating), own...)
		}
	}
	words = append(words, keywords...)
	return append(words, namesOf(
		check.WordVariable, check.WordFunction, check.WordAction, check.WordAggregating)...)
}

// argumentsOf returns the arguments of the first probe that descriptions name.
func argumentsOf(env Env, descriptions string) ([]check.Arg, error) {
	list, bad := syntax.ParseProbes(descriptions, syntax.Mode{Last: syntax.PartName})
	if len(bad) > 0 || len(list) == 0 {
		return nil, nil
	}
	probes, err := env.Probes(list[0])
	if err != nil || len(probes) == 0 {
		return nil, err
	}
	args, _ := probes[0].Arguments()
	return args, nil
}

var chainParts = regexp.MustCompile(`\w+(?:\[[^\]]*\])?`)

// membersOf returns the members of what a chain names.
func membersOf(env Env, text string, p *place) []Word {
	parts := chainParts.FindAllString(p.chain, -1)
	base, index, indexed := strings.Cut(strings.TrimSuffix(parts[0], "]"), "[")
	var at shape
	switch base {
	case "self", "this":
		var words []Word
		for _, v := range variables(text, scope(base)) {
			words = append(words, Word{v, "variable", ""})
		}
		return words
	case "args":
		args, _ := argumentsOf(env, p.probes)
		if !indexed {
			return fieldWords(args)
		}
		n, err := strconv.Atoi(strings.TrimSpace(index))
		if err != nil || n < 0 || n >= len(args) {
			return nil
		}
		at = shape{args[n].Type, args[n].Xlate}
	case "curpsinfo":
		at.xlate = "psinfo_t"
	case "curlwpsinfo":
		at.xlate = "lwpsinfo_t"
	case "curthread":
		spec, err := env.BTF()
		var task *btf.Struct
		if err != nil || spec.TypeByName("task_struct", &task) != nil {
			return nil
		}
		at.kernel = task
	default:
		return nil
	}
	for _, name := range parts[1:] {
		name, _, _ = strings.Cut(name, "[")
		list := members(at.kernel)
		i := slices.IndexFunc(list, func(m btf.Member) bool { return m.Name == name })
		if i < 0 {
			return nil
		}
		at = shape{kernel: list[i].Type}
	}
	var words []Word
	if at.xlate != "" {
		for _, name := range translatedMembers(at.xlate) {
			words = append(words, Word{name, "field", at.xlate})
		}
		return words
	}
	for _, m := range members(at.kernel) {
		words = append(words, Word{m.Name, "field", cText(m.Type)})
	}
	return words
}

// fieldWords returns the fields of the record of a trace event.
func fieldWords(args []check.Arg) []Word {
	var words []Word
	for i := range args {
		if args[i].Name != "" {
			words = append(words, Word{args[i].Name, "field", argText(&args[i])})
		}
	}
	return words
}

// describe returns what continues a probe description, and where in it the words begin.
func describe(env Env, text string) (words []Word, at int, err error) {
	parts := strings.Split(text, ":")
	last := parts[len(parts)-1]
	at = len(text) - len(last)
	if len(parts) == 1 {
		words = slices.Clone(descriptions)
		for _, p := range providers {
			p.Text += ":"
			words = append(words, p)
		}
		return beginning(words, last), at, nil
	}
	if len(parts) > 4 {
		return nil, at, nil
	}
	d := &syntax.Probe{Parts: 4}
	names := []*syntax.Name{&d.Provider, &d.Module, &d.Function, &d.Name}
	for i, p := range parts {
		names[i].Text = p
	}
	names[len(parts)-1].Text = last + "*"
	found := map[string]int{}
	err = env.List(d, func(l probe.Listed) {
		found[[]string{l.Provider, l.Module, l.Function, l.Name}[len(parts)-1]]++
	})
	var none *probe.NoProbe
	if errors.As(err, &none) { // the description is not complete
		err = nil
	}
	kind := []string{"provider", "module", "function", "probe"}[len(parts)-1]
	if len(parts) == 2 && last == "" {
		words = append(words, Word{":", "module", "any module"})
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if name == "" {
			continue
		}
		help, end := "", ""
		if n := found[name]; n > 1 {
			help = strconv.Itoa(n) + " probes"
		}
		if len(parts) < 4 {
			end = ":"
		}
		words = append(words, Word{name + end, kind, help})
	}
	slices.SortStableFunc(words, func(a, b Word) int {
		return cmp.Compare(len(a.Text), len(b.Text))
	})
	return words, at, err
}

// maxExplained is the highest number of probes that Match lists with their arguments.
const maxExplained = 60

// Match returns the probes that a text finds: a description, or a part of the name of a function or
// of a probe. Help has the arguments. The error says what is wrong with a description.
func Match(env Env, text string) (*Completion, error) {
	text = strings.TrimSpace(text)
	out := &Completion{To: len(text)}
	if text == "" {
		return out, nil
	}
	list := []*syntax.Probe{
		{Parts: 4, Function: syntax.Name{Text: "*" + text + "*"}},
		{Parts: 4, Name: syntax.Name{Text: "*" + text + "*"}},
	}
	if strings.Contains(text, ":") {
		var bad syntax.Diagnostics
		if list, bad = syntax.ParseProbes(text, syntax.Mode{Last: syntax.PartName}); len(bad) > 0 {
			return nil, bad
		}
	}
	seen := map[string]bool{}
	for _, d := range list {
		err := env.List(d, func(l probe.Listed) {
			name := strings.Join([]string{l.Provider, l.Module, l.Function, l.Name}, ":")
			if seen[name] {
				return
			}
			if len(out.Words) == MaxWords {
				out.More++
				return
			}
			seen[name] = true
			out.Words = append(out.Words, Word{Text: name, Kind: "probe"})
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range out.Words[:min(len(out.Words), maxExplained)] {
		out.Words[i].Help = signature(env, out.Words[i].Text)
	}
	return out, nil
}

// signature returns the arguments of a probe: "args[0] struct sock *sk, ...".
func signature(env Env, description string) string {
	args, err := argumentsOf(env, description)
	if err != nil {
		return ""
	}
	var out []string
	for i := range args {
		if args[i].Field != 0 {
			out = append(out, argText(&args[i]))
		} else {
			out = append(out, "args["+strconv.Itoa(i)+"] "+argText(&args[i]))
		}
	}
	return strings.Join(out, ", ")
}
