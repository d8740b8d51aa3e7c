// Package cpp is the C preprocessor for D programs: macros, conditions, included files. It opens no
// file itself and runs no other program. It records the origin of each byte of its output, so that
// diagnostics of the compiler point at the source text.
//
// It implements C99 and these extensions of GNU's: names with $ in them, a, ## __VA_ARGS__, named
// variable arguments, #include_next, #warning, #pragma once. Syntax that C does not have - @, the
// backtick, probes - passes through unchanged.
package cpp

import (
	"slices"
	"strconv"
	"time"

	"culprit/lang/syntax"
)

// Limits of one run. Exceeding one is a diagnostic.
const (
	maxSteps       = 1 << 19  // tokens that are read
	maxBytes       = 16 << 20 // of tokens that are made, and of files
	maxIncludes    = 2000
	maxDepth       = 100 // of files included by files
	maxNesting     = 300 // of calls in arguments of calls
	maxDiagnostics = 20
)

// A Config contains the inputs of a run besides the text.
type Config struct {
	Macros []Macro                           // of the command line, in its order
	Dirs   []string                          // of -I: #include searches these first
	System []string                          // #include searches these next
	Read   func(name string) ([]byte, error) // returns a file's text; nil: there are no files
	// of -X: a, c: C99 only; s: __STDC__ is not defined; t: linux and unix are defined, too. 0: a
	Standard byte
	Arch     string    // as GOARCH: amd64, arm64
	Now      time.Time // of __DATE__ and __TIME__
}

// A Macro is a definition or a #undef of the command line.
type Macro struct {
	Text  string // NAME or NAME=VALUE; F(A)=VALUE has parameters
	Undef bool
}

// An Inclusion is a file that was read for an #include.
type Inclusion struct {
	Depth int // 1: included by the program itself
	Name  string
}

// A run preprocesses one text.
type run struct {
	c        Config
	inputs   []*input
	contexts []*context
	base     int // index of the first context that belongs to the current argument
	macros   map[string]*macro
	once     map[string]bool
	included []Inclusion
	out      writer
	steps    int
	bytes    int
	nested   int
	stopped  bool
	asking   bool // within an #if: defined is an operator
	faults   syntax.Diagnostics
	warnings syntax.Diagnostics
}

// Run preprocesses a text. name is the file in messages, and its directory is searched first for
// "files"; "" is text of a command line. Run returns an Output, or the diagnostics of the mistakes
// that prevent it.
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
			p.large(t.at, "the preprocessed text exceeds "+strconv.Itoa(syntax.MaxText)+" bytes")
		}
	}
	if len(p.faults) > 0 {
		return nil, p.faults
	}
	p.out.end(place{f, len(text), len(text)})
	return &Output{
		Text:     p.out.b.String(),
		Included: p.included,
		Warnings: p.warnings,
		marks:    p.out.marks,
	}, nil
}

// report adds a diagnostic, unless the same one is there.
func (p *run) report(at place, code syntax.Code, message, hint string) {
	if p.stopped ||
		slices.ContainsFunc(
			p.faults,
			func(d *syntax.Diagnostic) bool {
				return d.Code == code && d.Pos == at.from &&
					d.File == at.file.name
			},
		) {
		return
	}
	d := diagnose(at, code, message, hint)
	p.faults = append(p.faults, d)
	if len(p.faults) == maxDiagnostics {
		p.faults = append(
			p.faults,
			diagnose(
				at, syntax.TooMany, "too many errors; the rest of the text is not checked",
				"correct the errors above first",
			),
		)
		p.stopped = true
	}
}

func (p *run) warn(at place, code syntax.Code, message, hint string) {
	// users can't correct a system header
	if len(p.warnings) < maxDiagnostics && at.file.dir < len(p.c.Dirs) {
		p.warnings = append(p.warnings, diagnose(at, code, message, hint))
	}
}

// large reports an exceeded limit and stops the run.
func (p *run) large(at place, message string) {
	p.report(at, TooLarge, message, "")
	p.stopped = true
}

// step counts the tokens that are read.
func (p *run) step(at place) {
	p.steps++
	if p.steps == maxSteps {
		p.large(at, "preprocessing takes more than "+strconv.Itoa(maxSteps)+" tokens")
	}
}

// diagnose returns a diagnostic at a place in a file, with the file that includes it.
func diagnose(at place, code syntax.Code, message, hint string) *syntax.Diagnostic {
	d := syntax.Diagnose(at.file.name, at.file.raw, at.span(), code, message, hint)
	route(d, at.file)
	return d
}

// route adds the line that includes the file of a diagnostic.
func route(d *syntax.Diagnostic, f *file) {
	if f.quiet {
		d.Message = f.name + ": " + d.Message
		d.File = ""
		return
	}
	if f.from == nil {
		return
	}
	by := syntax.Diagnose(
		f.from.name, f.from.raw, syntax.Span{From: int32(f.at), To: int32(f.at)}, "", "", "",
	)
	if d.Hint != "" {
		d.Hint += "; "
	}
	d.Hint += "included by line " + strconv.Itoa(by.Line)
	if by.File != "" {
		d.Hint += " of " + by.File
	}
}
