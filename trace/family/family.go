package family

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"culprit/measure"
	"culprit/symbol"
	"culprit/trace"
)

// familyTexts are the built-in traced statistics: one file per family.
//
//go:embed statistics/*.d
var familyTexts embed.FS

// A Family is the statistics that one D program measures. The program is a file of statistics/. Its
// first comment describes the file, then, behind an empty line, declares them with one declaration
// per line. Any other line there is an error. A line that begins with more than one space after the
// * continues the previous one:
//
//	statistic ID KIND UNIT by FIELD FIELD ...: HELP
//		The aggregation is named as ID, with _ for each dot, and has these keys in this order.
//	field NAME TYPE [of WORDS]: HELP
//		KIND and TYPE are those of measure; WORDS is a name that namingOf knows.
//	without culprit
//		Events of this process are not counted.
//	optional PROBE
//		Clauses of this probe are left out when this kernel lacks it.
//	optional argN of PROBE
//		Where this kernel's probe has fewer arguments, a variable that is set to argN is set to 0.
//
// Without readers nothing of it is compiled or in the kernel. A run has its own program, with only
// the parts that its queries need (see program). Equal runs share one program.
//
// It is a measure.Source and a measure.Outsider. Safe for several goroutines.
type Family struct {
	// Files reads files of processes; nil: this process does. Set it before the first Run.
	Files *symbol.Files

	file    string // without its ending
	text    string
	stats   []measure.Stat
	words   map[string]*naming // by field
	without bool
	maybe   []optional
	from    string // the first release of Linux with the others; "": all that culprit supports
	budget  trace.Budget
	rest    time.Duration // how long a program over its budget is suspended

	start sync.Mutex // one start or stop at a time; locked before mu

	mu      sync.Mutex // guards the fields below
	running map[string]*familyRun
	past    map[measure.StatID]measure.Span // cost of runs that have ended
	outside measure.Span                    // the part of past outside of this process
}

// Families returns the built-in traced statistics. A program that is over the budget for some
// seconds is suspended; 0: no limit.
func Families(budget trace.Budget) []*Family {
	out, err := parseFamilies(familyTexts)
	if err != nil {
		panic(err) // cannot happen: the files are embedded, and TestFamilies parses them
	}
	for _, f := range out {
		f.budget = budget
	}
	return out
}

// parseFamilies parses the files statistics/*.d. An error names the file and the line.
func parseFamilies(files fs.FS) ([]*Family, error) {
	names, err := fs.Glob(files, "statistics/*.d")
	if err != nil {
		return nil, err
	}
	var out []*Family
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		f, err := newFamily(strings.TrimSuffix(path.Base(name), ".d"), string(text))
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// newFamily parses the declarations in the head of a file. An error names the file and the line.
func newFamily(file, text string) (*Family, error) {
	f := &Family{
		file:    file,
		rest:    familyRest,
		words:   map[string]*naming{},
		running: map[string]*familyRun{},
		past:    map[measure.StatID]measure.Span{},
	}
	head, body, ok := strings.Cut(strings.TrimPrefix(text, "/*"), "*/")
	if !ok || !strings.HasPrefix(text, "/*") {
		return nil, fmt.Errorf("statistics/%s.d:1: does not begin with a comment", file)
	}
	f.text = strings.TrimLeft(body, "\n")
	var d declarations
	for _, line := range headLines(head) {
		if err := d.add(f, line); err != nil {
			return nil, fmt.Errorf("statistics/%s.d:%d: %w: %q", file, line.number, err, line.text)
		}
	}
	for i, stat := range d.stats {
		for _, name := range stat.by {
			at := slices.IndexFunc(d.fields, func(d measure.Field) bool { return d.Name == name })
			if at < 0 {
				return nil, fmt.Errorf(
					"statistics/%s.d:%d: no line declares field %q of %s",
					file, stat.line, name, f.stats[i].ID,
				)
			}
			f.stats[i].Fields = append(f.stats[i].Fields, d.fields[at])
		}
	}
	return f, nil
}

// A headLine is one declaration of a head.
type headLine struct {
	number int    // of its first line in the file, from 1
	text   string // without the *, with the lines that continue it
}

// headLines returns the declarations of a head: what follows the first empty line, or everything
// without an empty line.
func headLines(head string) []headLine {
	var out []headLine
	prose := true
	for i, raw := range strings.Split(strings.TrimRight(head, " \n"), "\n") {
		raw = strings.TrimPrefix(raw, " *")
		text := strings.TrimSpace(raw)
		switch {
		case text == "" && prose && len(out) > 0:
			out, prose = nil, false
		case text == "":
		case strings.HasPrefix(raw, "  ") && len(out) > 0:
			out[len(out)-1].text += " " + text
		default:
			out = append(out, headLine{i + 1, text})
		}
	}
	return out
}

// declarations are the parts of a head that refer to each other.
type declarations struct {
	fields []measure.Field
	stats  []declaredStat // in the order of Family.stats
}

type declaredStat struct {
	line int
	by   []string // names of its fields
}

// add parses one declaration and adds it to d and f. An error does not contain the line.
func (d *declarations) add(f *Family, line headLine) error {
	what, help, _ := strings.Cut(line.text, ": ")
	words := strings.Fields(what)
	switch {
	case words[0] == "statistic":
		if err := addStat(f, words, help); err != nil {
			return err
		}
		d.stats = append(d.stats, declaredStat{line.number, words[min(len(words), 5):]})
	case words[0] == "field":
		return d.addField(f, words, help)
	case line.text == "without culprit":
		f.without = true
	case words[0] == "optional":
		o, err := optionalOf(words)
		if err != nil {
			return err
		}
		f.maybe = append(f.maybe, o)
	case words[0] == "from" && len(words) == 3 && words[1] == "Linux":
		f.from = words[2]
	default:
		return errors.New(
			`want "statistic ...", "field ...", "without culprit", "optional ..." or ` +
				`"from Linux RELEASE"`,
		)
	}
	return nil
}

// addStat parses "statistic ID KIND UNIT by FIELD FIELD ...: HELP".
func addStat(f *Family, words []string, help string) error {
	if len(words) < 4 || help == "" || len(words) > 4 && words[4] != "by" {
		return errors.New(`want "statistic ID KIND UNIT by FIELD FIELD ...: HELP"`)
	}
	st := measure.Stat{
		ID:      measure.StatID(words[1]),
		Unit:    measure.Unit(words[3]),
		Sparse:  true,
		Traced:  true,
		Help:    help,
		Program: f.text,
	}
	switch words[2] {
	case measure.Delta.String():
		st.Kind = measure.Delta
	case measure.Dists.String():
		st.Kind = measure.Dists
	default:
		return fmt.Errorf("kind %q, want %q or %q", words[2], measure.Delta, measure.Dists)
	}
	f.stats = append(f.stats, st)
	return nil
}

// addField parses "field NAME TYPE [of WORDS]: HELP".
func (d *declarations) addField(f *Family, words []string, help string) error {
	if len(words) != 3 && (len(words) != 5 || words[3] != "of") || help == "" {
		return errors.New(`want "field NAME TYPE [of WORDS]: HELP"`)
	}
	field := measure.Field{Name: words[1], Type: measure.Word, Help: help}
	if words[2] == measure.Number.String() {
		field.Type = measure.Number
	} else if words[2] != measure.Word.String() {
		return fmt.Errorf("type %q, want %q or %q", words[2], measure.Word, measure.Number)
	}
	if len(words) == 5 {
		if f.words[field.Name] = namingOf(words[4]); f.words[field.Name] == nil {
			return fmt.Errorf("no list of names %q in names.go", words[4])
		}
	}
	d.fields = append(d.fields, field)
	return nil
}

// Stats implements measure.Source.
func (f *Family) Stats() []measure.Stat { return f.stats }

// stat returns a statistic of the family, or nil.
func (f *Family) stat(id measure.StatID) *measure.Stat {
	if i := slices.IndexFunc(f.stats, func(st measure.Stat) bool { return st.ID == id }); i >= 0 {
		return &f.stats[i]
	}
	return nil
}

// aggregationOf returns the name of the aggregation of a statistic.
func aggregationOf(id measure.StatID) string { return strings.ReplaceAll(string(id), ".", "_") }
