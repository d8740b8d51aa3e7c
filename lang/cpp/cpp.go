// Package cpp is C's preprocessor for D programs: macros, conditions, files that are included. It opens no file itself and
// runs no other program. Of each byte that it gives it knows where it comes from, so that what the compiler says of the text
// is told at the place that somebody wrote.
//
// It does what C99 says, and of what GNU's does besides: names with $ in them, a, ## __VA_ARGS__, named variable
// arguments, #include_next, #warning, #pragma once. What C does not know - @, the backtick, probes - goes through as it is.
package cpp

import (
	"slices"
	"strconv"
	"time"

	"culprit/lang/syntax"
)

// Bounds of one run. What is beyond is a diagnostic.
const (
	maxSteps    = 1 << 19  // tokens that are looked at
	maxBytes    = 16 << 20 // of tokens that are made, and of files
	maxIncludes = 2000
	maxDepth    = 100 // of files in files
	maxNesting  = 300 // of calls in arguments of calls
	maxTold     = 20
)

// A Config is what a run is told besides the text.
type Config struct {
	Macros   []Macro                           // of the command line, in its order
	Dirs     []string                          // of -I: where #include looks first
	System   []string                          // where it looks then
	Read     func(name string) ([]byte, error) // gives a file; nil: there are none
	Standard byte                              // of -X: a, c: C99 and no more; s: __STDC__ is not defined; t: also linux and unix are. 0: a
	Arch     string                            // as Go calls it: amd64, arm64
	Now      time.Time                         // of __DATE__ and __TIME__
}

// A Macro is one that a command line defines or takes away.
type Macro struct {
	Text  string // NAME or NAME=VALUE; F(A)=VALUE has parameters
	Undef bool
}

// An Inclusion is a file that was read for an #include.
type Inclusion struct {
	Depth int // 1: the program names it itself
	Name  string
}

// A run is one way through a text.
type run struct {
	c        Config
	inputs   []*input
	contexts []*context
	base     int // contexts below are not this argument's
	macros   map[string]*macro
	once     map[string]bool
	included []Inclusion
	out      writer
	steps    int
	bytes    int
	nested   int
	stopped  bool
	asking   bool // within an #if: defined asks for a name
	faults   syntax.Diagnostics
	warnings syntax.Diagnostics
}

// Run takes a text through the preprocessor. Its name is for messages, and its directory is where "files" are looked for
// first; "" is text of a command line. It gives a Source, or diagnostics that tell why there is none.
func Run(name, text string, c Config) (*Output, syntax.Diagnostics) {
	p := &run{c: c, macros: map[string]*macro{}, once: map[string]bool{}}
	p.predefine()
	f := newFile(name, text)
	p.inputs = []*input{{file: f, first: true}}
	for {
		t := p.next()
		if t.kind == tEOF {
			break
		}
		p.out.write(t)
		if p.out.b.Len() > syntax.MaxText {
			p.large(t.at, "the text becomes longer than the "+strconv.Itoa(syntax.MaxText)+" bytes that are compiled")
		}
	}
	if len(p.faults) > 0 {
		return nil, p.faults
	}
	p.out.end(place{f, len(text), len(text)})
	return &Output{Text: p.out.b.String(), Included: p.included, Warnings: p.warnings, marks: p.out.marks}, nil
}

// report tells of a fault; the same one is told once.
func (p *run) report(at place, code syntax.Code, message, hint string) {
	if p.stopped || slices.ContainsFunc(p.faults, func(d *syntax.Diagnostic) bool { return d.Code == code && d.Pos == at.from && d.File == at.file.name }) {
		return
	}
	d := diagnose(at, code, message, hint)
	p.faults = append(p.faults, d)
	if len(p.faults) == maxTold {
		p.faults = append(p.faults, diagnose(at, syntax.TooMany, "there is more that is wrong, which is not looked at", "mend what stands before this first"))
		p.stopped = true
	}
}

func (p *run) warn(at place, code syntax.Code, message, hint string) {
	if len(p.warnings) < maxTold && at.file.dir < len(p.c.Dirs) { // who has a header of the system can't mend it
		p.warnings = append(p.warnings, diagnose(at, code, message, hint))
	}
}

// large ends it all.
func (p *run) large(at place, message string) {
	p.report(at, TooLarge, message, "")
	p.stopped = true
}

// step counts what is looked at.
func (p *run) step(at place) {
	p.steps++
	if p.steps == maxSteps {
		p.large(at, "the preprocessor has looked at "+strconv.Itoa(maxSteps)+" tokens and is not through")
	}
}

// diagnose tells of a place in a file, and of the way there.
func diagnose(at place, code syntax.Code, message, hint string) *syntax.Diagnostic {
	d := syntax.Diagnose(at.file.name, at.file.raw, at.span(), code, message, hint)
	route(d, at.file)
	return d
}

// route says what includes the file that a diagnostic is about.
func route(d *syntax.Diagnostic, f *file) {
	if f.quiet {
		d.Message = f.name + ": " + d.Message
		d.File = ""
		return
	}
	if f.from == nil {
		return
	}
	by := syntax.Diagnose(f.from.name, f.from.raw, syntax.Span{From: int32(f.at), To: int32(f.at)}, "", "", "")
	if d.Hint != "" {
		d.Hint += "; "
	}
	d.Hint += "included by line " + strconv.Itoa(by.Line)
	if by.File != "" {
		d.Hint += " of " + by.File
	}
}
