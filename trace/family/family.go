package family

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"culprit/measure"
	"culprit/trace"
)

// familyTexts are the built-in statistics that are traced, a file for those that one program
// measures.
//
//go:embed statistics/*.d
var familyTexts embed.FS

// A Family is statistics that are measured by one program in D, a file of statistics/, whose head -
// its first comment - says what they are:
//
//	statistic ID KIND UNIT by FIELD FIELD ...: HELP    of the aggregation that is called as ID, with _ for each dot, and has these keys in this order
//	field NAME TYPE [of WORDS]: HELP                   KIND and TYPE are those of measure; WORDS names a table of namings
//	without culprit                                    what this process does itself is in none of them
//	optional PROBE                                     clauses of this probe are left out where this kernel has not got it
//
// While nobody reads it, it is text: nothing is compiled, and nothing of it is in the kernel. A run
// has its own program, with what it was asked for and no more (see program), and equal runs share
// one.
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
	rest    time.Duration // how long a program rests that took more

	start sync.Mutex // one start or stop at a time; taken before mu

	mu      sync.Mutex // guards what follows
	running map[string]*familyRun
	past    map[measure.StatID]measure.Span // what runs that have ended have cost
	outside measure.Span                    // and of it what was no time of this process
}

// Families lists the built-in statistics that are traced. A program of theirs that takes more than
// the budget for some seconds rests; 0: no bound.
func Families(budget trace.Budget) []*Family {
	names, err := fs.Glob(familyTexts, "statistics/*.d")
	if err != nil {
		panic(err) // the pattern is ours
	}
	var out []*Family
	for _, name := range names {
		text, err := familyTexts.ReadFile(name)
		if err != nil {
			panic(err) // it is in the program
		}
		f, err := newFamily(strings.TrimSuffix(path.Base(name), ".d"), string(text))
		if err != nil {
			panic(err) // TestFamilies reads them all
		}
		f.budget = budget
		out = append(out, f)
	}
	return out
}

// newFamily reads the head of a text.
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
	f.text = strings.TrimLeft(body, "\n")
	var fields []measure.Field
	by := map[measure.StatID][]string{}
	for line := range strings.Lines(head) {
		what, help, _ := strings.Cut(
			strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "*")), ": ",
		)
		words := strings.Fields(what)
		wrong := func() error { return fmt.Errorf("statistics of %s.d: %q", file, strings.TrimSpace(line)) }
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

// stat returns a statistic of the family; nil: it has no such.
func (f *Family) stat(id measure.StatID) *measure.Stat {
	if i := slices.IndexFunc(f.stats, func(st measure.Stat) bool { return st.ID == id }); i >= 0 {
		return &f.stats[i]
	}
	return nil
}

// aggregationOf returns the name of the aggregation of a statistic.
func aggregationOf(id measure.StatID) string { return strings.ReplaceAll(string(id), ".", "_") }
