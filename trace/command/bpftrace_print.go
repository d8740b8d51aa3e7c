package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"culprit/lang/bpftrace"
	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/lang/ir"
	"culprit/trace"
)

// A bpftracePrinter is a trace.Listener that prints as bpftrace does.
type bpftracePrinter struct {
	script  *bpftrace.Script
	session *trace.Session // set before the session runs
	out     *bufio.Writer
	std     trace.Streams
	json    bool
	buf     []byte
	names   map[uint32]string // of users
	cgroups cgroupPaths

	settings bpftrace.Settings
}

func newBpftracePrinter(
	s *bpftrace.Script, out *bufio.Writer, std trace.Streams, json bool,
) *bpftracePrinter {
	return &bpftracePrinter{
		script: s, out: out, std: std, json: json, names: map[uint32]string{},
	}
}

func (p *bpftracePrinter) write(b []byte) {
	p.out.Write(b) //nolint:errcheck // Flush returns the error
	p.buf = b[:0]
}

// attaching prints how many probes the program has.
func (p *bpftracePrinter) attaching(n int) {
	switch {
	case p.json:
		fmt.Fprintf(p.out, "{\"type\": \"attached_probes\", \"data\": {\"probes\": %d}}\n", n)
	case n == 1:
		fmt.Fprintln(p.out, "Attaching 1 probe...")
	default:
		fmt.Fprintf(p.out, "Attaching %d probes...\n", n)
	}
}

// Record performs the actions of one clause.
func (p *bpftracePrinter) Record(r *trace.Record) error {
	for i, a := range r.Actions {
		if a.Action.Action.Kind != check.Output {
			continue
		}
		if err := p.output(r, i, p.script.Outputs[a.Action.Action.Number]); err != nil {
			return err
		}
	}
	return nil
}

func (p *bpftracePrinter) output(r *trace.Record, i int, o *bpftrace.Output) error {
	switch o.Kind {
	case bpftrace.PrintMap:
		return p.printMap(o.Map, o.Top, o.Div)
	case bpftrace.ClearMap, bpftrace.ZeroMap:
		return p.changeMap(o.Map, o.Kind == bpftrace.ClearMap)
	case bpftrace.DeleteKey:
		return p.deleteKey(r, i, o.Map)
	case bpftrace.PrintTime:
		p.message("time", strftime(o.Text, time.Now()))
		return nil
	case bpftrace.Join:
		p.message("join", joined(r, i, o.Text)+"\n")
		return nil
	}
	next := 0
	take := func() trace.Value {
		next++
		return r.Value(i, next-1)
	}
	var values []bpftrace.Value
	for _, s := range o.Shapes {
		values = append(values, p.value(s, take, stackIndent))
	}
	switch o.Kind {
	case bpftrace.Print:
		if p.json {
			b := append(p.buf[:0], `{"type": "value", "data": `...)
			p.write(append(values[0].AppendJSON(b), "}\n"...))
			return nil
		}
		p.write(append(append(p.buf[:0], values[0].String()...), '\n'))
	case bpftrace.Printf:
		if !p.json {
			p.write(o.Format.Append(p.buf[:0], values))
			return nil
		}
		p.message("printf", string(o.Format.Append(nil, values)))
	case bpftrace.Cat:
		return p.cat(string(o.Format.Append(nil, values)))
	case bpftrace.System:
		return p.system(string(o.Format.Append(nil, values)))
	}
	return nil
}

// message prints the text of an action.
func (p *bpftracePrinter) message(kind, text string) {
	if p.json {
		p.write(bpftrace.AppendMessage(p.buf[:0], kind, text))
		return
	}
	p.write(append(p.buf[:0], text...))
}

// joined returns the strings of join(), up to the first empty one.
func joined(r *trace.Record, i int, between string) string {
	var out []byte
	for k := range r.Actions[i].Fields {
		word := r.Value(i, k).Bytes
		if len(word) == 0 {
			break
		}
		if k > 0 {
			out = append(out, between...)
		}
		out = append(out, word...)
	}
	return string(out)
}

// cat prints a file.
func (p *bpftracePrinter) cat(name string) error {
	f, err := os.Open(name)
	if err != nil {
		fmt.Fprintf(p.std.Err, "%s: cat: %v\n", p.std.Name, err)
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostCat(p.settings["max_cat_bytes"])))
	if err != nil {
		fmt.Fprintf(p.std.Err, "%s: cat: %v\n", p.std.Name, err)
	}
	p.message("cat", string(b))
	return nil
}

// system runs a command. Its output follows the output that was printed before.
func (p *bpftracePrinter) system(line string) error {
	if err := p.Pause(); err != nil {
		return err
	}
	c := exec.Command("/bin/sh", "-c", line)
	if p.json {
		b, err := c.Output()
		var status *exec.ExitError
		if err != nil && !errors.As(err, &status) {
			return fmt.Errorf("system(%s): %w", line, err)
		}
		p.message("syscall", string(b))
		return nil
	}
	c.Stdout, c.Stderr = p.std.Out, p.std.Err
	if err := c.Run(); err != nil {
		var status *exec.ExitError
		if !errors.As(err, &status) {
			return fmt.Errorf("system(%s): %w", line, err)
		}
	}
	return nil
}

// Fault prints why a clause ended early.
func (p *bpftracePrinter) Fault(f *trace.FaultReport) error {
	fmt.Fprintf(p.std.Err, "%s: warning: a statement at %s was given up: %s\n", p.std.Name,
		probeText(f.Probe), format.Fault(f.Fault).Message(0, f.Probe.ID, f.Probe.String(),
			f.Address, -1))
	return nil
}

// Drops prints how many events were lost.
func (p *bpftracePrinter) Drops(kind ir.Drop, _ int, n uint64) error {
	switch kind {
	case ir.DropRecord:
		if p.json {
			fmt.Fprintf(p.out, "{\"type\": \"lost_events\", \"data\": {\"events\": %d}}\n", n)
			return nil
		}
		fmt.Fprintf(p.out, "Lost %d events\n", n)
	case ir.DropStack:
		fmt.Fprintf(
			p.std.Err, "%s: warning: %d stacks are missing: more different ones came than fit\n",
			p.std.Name, n,
		)
	case ir.DropAgg, ir.DropDynamic:
		fmt.Fprintf(p.std.Err, "%s: warning: a map was full: %d updates were lost\n", p.std.Name, n)
	default:
		fmt.Fprintf(p.std.Err, "%s: warning: %d firings of probes were lost\n", p.std.Name, n)
	}
	return nil
}

// Pause flushes the output. It fails with trace.ErrNoReader when the output fails.
func (p *bpftracePrinter) Pause() error {
	if err := p.out.Flush(); err != nil {
		return trace.ErrNoReader
	}
	return nil
}

// End prints all maps.
func (p *bpftracePrinter) End() error {
	p.write(append(p.buf[:0], "\n\n"...))
	switch p.settings["print_maps_on_exit"] {
	case "false", "0":
	default:
		if err := p.printMaps(); err != nil {
			return err
		}
	}
	if err := p.Pause(); err != nil {
		return err
	}
	for _, note := range slices.Concat(p.session.SymbolNotes(), p.session.StackNotes()) {
		fmt.Fprintf(p.std.Err, "%s: %s\n", p.std.Name, note)
	}
	return nil
}

// printMaps prints all maps.
func (p *bpftracePrinter) printMaps() error {
	for _, m := range p.script.Maps {
		if err := p.printMap(m, 0, 0); err != nil {
			return err
		}
	}
	return nil
}
