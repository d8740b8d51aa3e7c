package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"

	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/lang/ir"
)

// ErrNoReader ends a session whose output has no reader any more.
var ErrNoReader = errors.New("the output has no reader")

// Streams are the files that a request reads from and prints to.
type Streams struct {
	In  *os.File
	Out *os.File // output of the script
	Err *os.File
	// Plain is the standard output of commands that the script starts.
	Plain *os.File
	Name  string // of the program, as it was called: culprit's own messages begin with it
	// First runs a function on the first thread of the process, where tid is pid in BEGIN and
	// ticks; nil: any thread does.
	First func(func())
}

// A Printer is a Listener that prints as dtrace does.
type Printer struct {
	session *Session
	style   format.Style
	out     *bufio.Writer
	err     io.Writer
	name    string               // of the program, as it was called
	plain   *os.File             // standard output of commands of system()
	file    *os.File             // of freopen; nil: out is usual
	usual   *bufio.Writer        // the output without freopen
	flows   map[int]*format.Flow // by CPU, for -F
	headed  bool                 // the header was printed
	tags    bool                 // -x droptags
	buf     []byte
}

// NewPrinter returns a listener that prints the output of s to out. It uses Err, Plain and Name of
// std.
func NewPrinter(s *Session, out *bufio.Writer, std Streams) *Printer {
	return &Printer{
		session: s,
		style:   s.script.style(),
		out:     out,
		usual:   out,
		err:     std.Err,
		name:    std.Name,
		plain:   std.Plain,
		flows:   map[int]*format.Flow{},
		tags:    s.HasOption("droptags"),
	}
}

func (p *Printer) head() {
	if !p.headed {
		p.headed = true
		p.write(p.style.Header(p.buf[:0]))
	}
}

func (p *Printer) write(b []byte) {
	p.out.Write(b) //nolint:errcheck // Flush returns the error
	p.buf = b[:0]
}

// Record performs the actions of one clause and prints their output. It fails when an aggregation
// cannot be read or an action fails.
func (p *Printer) Record(r *Record) error {
	if !slices.ContainsFunc(r.Actions, shows) {
		for i := range r.Actions {
			if err := p.action(r, i); err != nil {
				return err
			}
		}
		return nil
	}
	p.head()
	b := p.buf[:0]
	probe := r.Probe
	if p.style.FlowIndent {
		f := p.flows[r.CPU]
		if f == nil {
			f = &format.Flow{}
			p.flows[r.CPU] = f
		}
		b = p.style.FlowProbe(
			b, f, r.CPU, probe.ID, r.Clause.Index, probe.Provider, probe.Function, probe.Name,
		)
	} else {
		b = p.style.Probe(b, r.CPU, probe.ID, probe.Function, probe.Name)
	}
	p.write(b)
	for i := range r.Actions {
		if err := p.action(r, i); err != nil {
			return err
		}
	}
	p.write(p.style.EndProbe(p.buf[:0]))
	return nil
}

// shows reports whether a clause with this action is printed with a line of its own. commit() and
// discard() are not.
func shows(a ir.RecordAction) bool {
	switch a.Action.Action.Kind {
	case check.Commit, check.Discard:
		return false
	}
	return true
}

// action performs one action.
func (p *Printer) action(r *Record, i int) error {
	action := r.Actions[i].Action.Action
	values := func() []format.Value {
		out := make([]format.Value, len(r.Actions[i].Fields))
		for k := range out {
			out[k] = p.session.value(r.Value(i, k))
		}
		p.session.addNames(action.Format, out, r.Thread)
		return out
	}
	switch action.Kind {
	case check.DefaultTrace, check.Exit, check.Commit, check.Discard, check.Speculate:
	case check.Trace:
		p.write(p.style.Trace(p.buf[:0], values()[0]))
	case check.Print:
		b, address := r.Value(i, 0).Bytes, uint64(r.Value(i, 1).Int)
		most := p.session.script.numberOption("printsize", math.MaxInt)
		p.write(p.style.Print(
			p.buf[:0], address, shape(action.Type), b, min(int(action.Type.Size()), most),
		))
	case check.Tracemem:
		p.write(p.style.Tracemem(p.buf[:0], memory(r, i)))
	case check.Stack, check.UStack:
		p.write(p.style.Stack(p.buf[:0], values()[0]))
	case check.Symbol:
		p.write(p.style.Symbol(p.buf[:0], values()[0]))
	case check.Printf:
		b, err := p.style.Printf(p.buf[:0], action.Format, values())
		p.write(b)
		if err != nil {
			return err
		}
	case check.Printa:
		return p.printa(action)
	case check.Clear, check.Trunc, check.Normalize, check.Denormalize:
		return p.change(r, i, action)
	case check.System:
		return p.system(action, values())
	case check.Freopen:
		return p.freopen(action, values())
	case check.Ftruncate:
		if p.file != nil {
			return p.file.Truncate(0)
		}
	case check.Setopt:
		return p.setopt(r, action, values())
	default:
		return fmt.Errorf(
			"this version does not perform action %d at %q", action.Kind,
			p.session.script.text(r.Actions[i].Action.Place()),
		)
	}
	return nil
}

func (p *Printer) printa(action check.Action) error {
	all, err := p.gathered(action.Aggs)
	if err != nil {
		return err
	}
	if action.Format == nil {
		p.write(p.style.Table(p.buf[:0], all...))
		return nil
	}
	for _, g := range all {
		for _, row := range g.Rows {
			p.session.addNames(action.Format, row.Key, 0)
		}
	}
	b, err := p.style.Printa(p.buf[:0], action.Format, all...)
	p.write(b)
	return err
}

// gathered reads aggregations and returns them as they are printed.
func (p *Printer) gathered(of []*check.Aggregation) ([]*format.Aggregation, error) {
	all, err := p.session.Aggregates(of)
	out := make([]*format.Aggregation, len(all))
	for i, g := range all {
		out[i] = &g.Aggregation
	}
	return out, err
}

// change performs clear(), trunc(), normalize() and denormalize(). It first reads what was added
// before, so that this is changed too.
func (p *Printer) change(r *Record, i int, action check.Action) error {
	all, err := p.session.Aggregates(action.Aggs)
	if err != nil {
		return err
	}
	for _, g := range all {
		switch action.Kind {
		case check.Clear:
			if err := g.remove(); err != nil {
				return err
			}
		case check.Trunc:
			if g.array != nil {
				return g.remove()
			}
			n := int64(0)
			if len(r.Actions[i].Action.Args) > 0 {
				n = r.Value(i, 0).Int
			}
			g.Truncate(n)
		case check.Normalize:
			g.Normal = uint64(r.Value(i, 0).Int)
		case check.Denormalize:
			g.Normal = 1
		}
	}
	return nil
}

// system runs a command. Its output follows the output that was printed before.
func (p *Printer) system(action check.Action, values []format.Value) error {
	line, err := p.style.Printf(nil, action.Format, values)
	if err != nil {
		return err
	}
	if err := p.Pause(); err != nil {
		return err
	}
	c := exec.Command("/bin/sh", "-c", string(line))
	c.Stdout, c.Stderr = p.plain, p.err
	if p.file != nil {
		c.Stdout = p.file
	}
	if err := c.Run(); err != nil {
		var status *exec.ExitError
		if !errors.As(err, &status) {
			return fmt.Errorf("system(%s): %w", line, err)
		}
	}
	return nil
}

// freopen prints further output into a file, or with an empty name to the usual output.
func (p *Printer) freopen(action check.Action, values []format.Value) error {
	name, err := p.style.Printf(nil, action.Format, values)
	if err != nil {
		return err
	}
	if err := p.Pause(); err != nil {
		return err
	}
	if p.file != nil {
		if err := p.file.Close(); err != nil {
			return fmt.Errorf("freopen: %w", err)
		}
		p.file, p.out = nil, p.usual
	}
	if len(name) == 0 {
		return nil
	}
	p.file, err = os.OpenFile(string(name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o666)
	if err != nil {
		return fmt.Errorf("freopen: %w", err)
	}
	p.out = bufio.NewWriter(p.file)
	return nil
}

// Pause flushes the output. It fails with ErrNoReader when out fails.
func (p *Printer) Pause() error {
	if err := p.out.Flush(); err != nil {
		return ErrNoReader
	}
	return nil
}

// Fault prints why a clause ended early, and where in the text. It fails with ErrNoReader when out
// fails.
func (p *Printer) Fault(f *FaultReport) error {
	if err := p.Pause(); err != nil { // in its place among what was printed
		return err
	}
	from, to := f.From, f.To
	// A fault in the text of a library is reported at the clause.
	if text := p.session.script.Program.Text; from < 0 || from > to || to > len(text) {
		from, to = int(f.Clause.At.From), int(f.Clause.At.To)
	}
	line, column := p.session.script.place(from)
	p.Say(
		"%s at line %d column %d: %s",
		format.Fault(f.Fault).
			Message(f.Clause.NumberAt(f.Probe), f.Probe.ID, f.Probe.String(), f.Address, -1),
		line,
		column,
		p.session.script.Program.Text[from:to],
	)
	if f.Ends {
		p.Say("the clause ended before its exit(), and no other probe can fire: the script ends")
	}
	return nil
}

// memory returns the bytes of a tracemem action: as many of the recorded ones as its third argument
// says, or all when that is below 0.
func memory(r *Record, i int) []byte {
	b := r.Value(i, 0).Bytes
	if len(r.Actions[i].Action.Args) > 1 {
		if n := r.Value(i, 1).Int; n >= 0 && n < int64(len(b)) {
			b = b[:n]
		}
	}
	return b
}

// Say prints a message of culprit itself, preceded by the name of the program.
func (p *Printer) Say(text string, args ...any) {
	fmt.Fprintf(p.err, "%s: %s\n", p.name, fmt.Sprintf(text, args...))
}

// End prints the aggregations that no printa has printed. It fails when they cannot be read, and
// with ErrNoReader when out fails.
func (p *Printer) End() error {
	all, err := p.gathered(p.session.script.Program.Aggs)
	if err != nil {
		return err
	}
	// dtrace prints this newline even when no aggregation follows.
	p.write(p.style.Aggregations(append(p.buf[:0], '\n'), all))
	if err := p.Pause(); err != nil {
		return err
	}
	for _, note := range slices.Concat(p.session.SymbolNotes(), p.session.StackNotes()) {
		p.Say("%s", note)
	}
	if p.file != nil {
		return p.file.Close()
	}
	return nil
}
