package family

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"culprit/measure"
	"culprit/trace"
)

// familyTexts are the built-in traced statistics: one file per family.
//
//go:embed statistics/*.d
var familyTexts embed.FS

// A Family is the statistics that one D program measures. The program is a file of statistics/. Its
// first comment declares them, with one declaration per line; a line that begins with more than one
// space after the * continues the previous one:
//
//	statistic ID KIND UNIT by FIELD FIELD ...: HELP
//		The aggregation is named as ID, with _ for each dot, and has these keys in this order.
//	field NAME TYPE [of WORDS]: HELP
//		KIND and TYPE are those of measure; WORDS is a name that namingOf knows.
//	without culprit
//		Events of this process are not counted.
//	optional PROBE
//		Clauses of this probe are left out when this kernel lacks it.
//
// Without readers nothing of it is compiled or in the kernel. A run has its own program, with only
// the parts that its queries need (see program). Equal runs share one program.
//
// It is a measure.Source and a measure.Outsider. Safe for several goroutines.
type Family struct {
	file    string // without its ending
	text    string
	stats   []measure.Stat
	words   map[string]*naming // by field
	without bool
	maybe   []string // probes that some kernels lack
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
	names, err := fs.Glob(familyTexts, "statistics/*.d")
	if err != nil {
		panic(err) // cannot happen: the pattern is valid
	}
	var out []*Family
	for _, name := range names {
		text, err := familyTexts.ReadFile(name)
		if err != nil {
			panic(err) // cannot happen: the file is embedded
		}
		f, err := newFamily(strings.TrimSuffix(path.Base(name), ".d"), string(text))
		if err != nil {
			panic(err) // cannot happen: TestFamilies parses all
		}
		f.budget = budget
		out = append(out, f)
	}
	return out
}

// table: the begin of a line of a head that continues the previous line
var continued = regexp.MustCompile(`\n \*  +`)

// newFamily parses the declarations in the head of a file. It fails when one is wrong.
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
		return nil, fmt.Errorf("statistics of %s.d: it does not begin with a comment", file)
	}
	head = continued.ReplaceAllString(head, " ")
	f.text = strings.TrimLeft(body, "\n")
	var fields []measure.Field
	by := map[measure.StatID][]string{}
	for line := range strings.Lines(head) {
		what, help, _ := strings.Cut(
			strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "*")), ": ",
		)
		words := strings.Fields(what)
		wrong := func() error {
			return fmt.Errorf("statistics of %s.d: %q", file, strings.TrimSpace(line))
		}
		switch {
		case len(words) == 0:
		case words[0] == "statistic":
			if len(words) < 4 || help == "" || len(words) > 4 && words[4] != "by" {
				return nil, wrong()
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
				return nil, wrong()
			}
			f.stats = append(f.stats, st)
			by[st.ID] = words[min(len(words), 5):]
		case words[0] == "field":
			if len(words) != 3 && (len(words) != 5 || words[3] != "of") || help == "" {
				return nil, wrong()
			}
			field := measure.Field{Name: words[1], Type: measure.Word, Help: help}
			if words[2] == measure.Number.String() {
				field.Type = measure.Number
			} else if words[2] != measure.Word.String() {
				return nil, wrong()
			}
			if len(words) == 5 {
				if f.words[field.Name] = namingOf(words[4]); f.words[field.Name] == nil {
					return nil, wrong()
				}
			}
			fields = append(fields, field)
		case words[0] == "without":
			f.without = true
		case words[0] == "optional" && len(words) == 2:
			f.maybe = append(f.maybe, words[1])
		}
	}
	for i := range f.stats {
		for _, name := range by[f.stats[i].ID] {
			at := slices.IndexFunc(fields, func(d measure.Field) bool { return d.Name == name })
			if at < 0 {
				return nil, fmt.Errorf(
					"statistics of %s.d: %s is by %s, which is no field", file, f.stats[i].ID, name,
				)
			}
			f.stats[i].Fields = append(f.stats[i].Fields, fields[at])
		}
	}
	return f, nil
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
