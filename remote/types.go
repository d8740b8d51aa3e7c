package remote

import (
	"context"
	"errors"

	"culprit/measure"
	"culprit/wire"
)

// Sampling says what to sample: the subject, the CPUs and the threads.
type Sampling struct {
	Of     string // cpu, off-cpu, run-queue or locks; "": cpu
	Hz     int    // samples per second and CPU; waits are all counted
	CPUs   []int  // empty: all
	For    measure.Span
	Kernel bool // only samples inside the kernel
	User   bool // only samples outside the kernel
	Times  bool // of cpu: samples have their times, as far as there is space

	// Only threads of these are sampled; of each list that is not empty, one must match.
	PIDs, TIDs         []int
	Processes, Cgroups []string // names of processes and threads; paths of control groups
}

// subjects are the values of Sampling.Of.
//
// table: the words of the protocol
var subjects = []string{"", "cpu", "off-cpu", "run-queue", "locks"}

// Sample is one stack of a sampling. Frames are in the form of dtrace, innermost first.
type Sample struct {
	Process      string
	User, Kernel []string
	State        string       // of waits: the thread's state, or the kind of lock
	Count        int64        // samples, or waits
	Amount       int64        // samples, or ns
	Times        []SampleTime // of some samples, in order; empty: unknown
}

// A SampleTime is when a thread was sampled.
type SampleTime struct {
	At  measure.Span // since the kernel started
	TID int
}

// Sampled is the result of a sampling.
type Sampled struct {
	Samples []Sample
	Began   measure.Time
	Took    measure.Span
	CPUs    int   // number of sampled CPUs
	Untimed int64 // samples without a time although they were asked for: there were too many
	Away    int64 // off-cpu: threads whose waits had not ended, and are in no sample
	Notes   []string
	Loss    []measure.Loss
	CPU     measure.Span // CPU time of the recorder meanwhile
}

func appendProblems(b []byte, all []measure.Problem) []byte {
	b = wire.AppendUint(b, uint64(len(all)))
	for _, p := range all {
		b = wire.AppendString(wire.AppendString(b, p.Key), p.Text)
	}
	return b
}

func (d *decoder) problems() []measure.Problem {
	var all []measure.Problem
	for range d.Count(2) {
		all = append(all, measure.Problem{Key: d.String(), Text: d.String()})
	}
	return all
}

// Usage is what the recorder takes.
type Usage struct {
	CPU    measure.Span // CPU time of the process since it started
	Memory int64        // resident bytes of the process and its parent
}

func appendStat(b []byte, st *measure.Stat) []byte {
	b = wire.AppendString(b, string(st.ID))
	b = append(b, byte(st.Kind), byte(st.Fold))
	b = wire.AppendBool(wire.AppendBool(wire.AppendBool(b, st.Sparse), st.Traced), st.Signed)
	b = wire.AppendString(wire.AppendString(b, string(st.Unit)), st.Help)
	b = wire.AppendUint(b, uint64(len(st.Fields)))
	for _, f := range st.Fields {
		b = wire.AppendString(b, f.Name)
		b = wire.AppendBool(append(b, byte(f.Type)), f.Overlaps)
		b = wire.AppendString(wire.AppendString(b, string(f.Unit)), f.Help)
	}
	b = wire.AppendString(wire.AppendString(b, st.Whole.Query), st.Whole.Rest)
	return wire.AppendString(b, st.Program)
}

func (d *decoder) stat() measure.Stat {
	st := measure.Stat{ID: measure.StatID(d.String())}
	st.Kind, st.Fold = measure.Kind(d.Byte()), measure.Fold(d.Byte())
	if st.Kind < measure.Delta || st.Kind > measure.Dists || st.Fold > measure.Min {
		d.Fail("kind %d, fold %d", st.Kind, st.Fold)
	}
	st.Sparse, st.Traced, st.Signed = d.Bool(), d.Bool(), d.Bool()
	st.Unit, st.Help = measure.Unit(d.String()), d.String()
	for range d.Count(5) {
		f := measure.Field{Name: d.String(), Type: measure.Type(d.Byte()), Overlaps: d.Bool()}
		if f.Type < measure.Word || f.Type > measure.Stack {
			d.Fail("field type %d", f.Type)
		}
		f.Unit, f.Help = measure.Unit(d.String()), d.String()
		st.Fields = append(st.Fields, f)
	}
	st.Whole.Query, st.Whole.Rest = d.String(), d.String()
	st.Program = d.String()
	return st
}

func appendStats(b []byte, all []measure.Stat) []byte {
	b = wire.AppendUint(b, uint64(len(all)))
	for i := range all {
		b = appendStat(b, &all[i])
	}
	return b
}

func (d *decoder) stats() []measure.Stat {
	var all []measure.Stat
	for range d.Count(12) {
		all = append(all, d.stat())
	}
	return all
}

func appendQuery(b []byte, q *measure.Query) []byte {
	b = wire.AppendStrings(wire.AppendString(b, string(q.Stat)), q.By)
	b = wire.AppendUint(b, uint64(len(q.Where)))
	for _, t := range q.Where {
		b = wire.AppendStrings(append(wire.AppendString(b, t.Field), byte(t.Op)), t.Values)
	}
	b = wire.AppendInt(b, int64(q.Over.Start))
	return wire.AppendInt(b, int64(q.Step))
}

func (d *decoder) query() measure.Query {
	q := measure.Query{Stat: measure.StatID(d.String()), By: d.Strings()}
	for range d.Count(3) {
		t := measure.Term{Field: d.String(), Op: measure.Op(d.Byte()), Values: d.Strings()}
		if t.Op < measure.Equal || t.Op > measure.In || len(t.Values) == 0 {
			d.Fail("comparison %d with %d values", t.Op, len(t.Values))
		}
		q.Where = append(q.Where, t)
	}
	q.Over.Start, q.Step = measure.Time(d.Int()), measure.Span(d.Int())
	return q
}

func appendLoss(b []byte, all []measure.Loss) []byte {
	b = wire.AppendUint(b, uint64(len(all)))
	for _, l := range all {
		b = wire.AppendUint(wire.AppendString(b, l.Reason), l.Events)
	}
	return b
}

func (d *decoder) loss() []measure.Loss {
	var all []measure.Loss
	for range d.Count(2) {
		all = append(all, measure.Loss{Reason: d.String(), Events: d.Uint()})
	}
	return all
}

// The ways in which a remote error is one of measure's.
const (
	errorPlain byte = iota
	errorUnsupported
	errorDenied
	errorUnclear
	errorTooLarge
	errorBudget // the cost exceeded the budget
	errorDiagnostic
)

// Error is an error of the other process. errors.Is and errors.As find the same as there: the three
// ways of measure, a *measure.Denied, each *measure.Diagnostic.
type Error struct {
	text   string
	causes []error
	budget bool
}

// Error returns the text that the error had in the other process.
func (e *Error) Error() string { return e.text }

// Unwrap returns the causes.
func (e *Error) Unwrap() []error { return e.causes }

// Spent reports whether the cost exceeded a budget.
func (e *Error) Spent() bool { return e.budget }

// diagnostics returns all diagnostics below err.
func diagnostics(err error) []*measure.Diagnostic {
	var one *measure.Diagnostic
	if all, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // a join, not a kind
		var out []*measure.Diagnostic
		for _, e := range all.Unwrap() {
			out = append(out, diagnostics(e)...)
		}
		return out
	}
	if errors.As(err, &one) {
		return []*measure.Diagnostic{one}
	}
	return nil
}

// appendError appends an error. nil has no text and no cause.
func appendError(b []byte, err error) []byte {
	if err == nil || errors.Is(err, context.Canceled) {
		return append(wire.AppendString(b, ""), 0)
	}
	b = wire.AppendString(b, err.Error())
	var causes []byte
	n := byte(0)
	for kind, is := range map[byte]error{
		errorUnsupported: measure.ErrUnsupported, errorUnclear: measure.ErrUnclear,
		errorTooLarge: measure.ErrTooLarge,
	} {
		if errors.Is(err, is) {
			causes, n = append(causes, kind), n+1
		}
	}
	if errors.Is(err, measure.ErrDenied) {
		causes, n = append(causes, errorDenied), n+1
		var d *measure.Denied
		if !errors.As(err, &d) {
			d = &measure.Denied{}
		}
		causes = wire.AppendString(wire.AppendString(causes, d.Doing), d.Needs)
	}
	var spent interface{ Spent() bool }
	if errors.As(err, &spent) && spent.Spent() {
		causes, n = append(causes, errorBudget), n+1
	}
	for _, d := range diagnostics(err) {
		if n == 255 {
			break
		}
		causes, n = append(causes, errorDiagnostic), n+1
		causes = wire.AppendString(causes, d.Text)
		causes = wire.AppendInt(wire.AppendInt(causes, int64(d.Pos)), int64(d.Len))
		for _, text := range []string{d.Code, d.Message, d.Hint} {
			causes = wire.AppendString(causes, text)
		}
	}
	return append(append(b, n), causes...)
}

// error returns nil for an error without a text.
func (d *decoder) error() error {
	e := &Error{text: d.String()}
	for range int(d.Byte()) {
		switch k := d.Byte(); k {
		case errorUnsupported:
			e.causes = append(e.causes, measure.ErrUnsupported)
		case errorUnclear:
			e.causes = append(e.causes, measure.ErrUnclear)
		case errorTooLarge:
			e.causes = append(e.causes, measure.ErrTooLarge)
		case errorBudget:
			e.budget = true
		case errorDenied:
			e.causes = append(e.causes, &measure.Denied{Doing: d.String(), Needs: d.String()})
		case errorDiagnostic:
			g := &measure.Diagnostic{Text: d.String(), Pos: int(d.Int()), Len: int(d.Int())}
			g.Code, g.Message, g.Hint = d.String(), d.String(), d.String()
			g.Pos, g.Len = min(max(0, g.Pos), len(g.Text)), min(max(0, g.Len), len(g.Text))
			e.causes = append(e.causes, g)
		default:
			d.Fail("error kind %d", k)
		}
	}
	if e.text == "" || d.Err != nil {
		return nil
	}
	return e
}
