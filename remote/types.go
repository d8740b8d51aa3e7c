package remote

import (
	"context"
	"errors"

	"culprit/measure"
)

// Role says what a request may do. Each role includes those before it. It is part of each request,
// and both ends check it.
type Role uint8

// The roles, as those of tokens.
const (
	RoleView   Role = iota + 1 // read what is recorded
	RoleRecord                 // run sources
	RoleTrace                  // run D scripts and sample
)

// String returns the name of the role.
func (r Role) String() string {
	switch r {
	case RoleView:
		return "view"
	case RoleRecord:
		return "record"
	case RoleTrace:
		return "trace"
	}
	return "none"
}

// check returns a *measure.Denied unless the role includes need.
func (r Role) check(need Role, doing string) error {
	if r < need || r > RoleTrace {
		return &measure.Denied{Doing: doing, Needs: "the role " + need.String()}
	}
	return nil
}

// Sampling says how to sample the CPUs.
type Sampling struct {
	Hz     int   // samples per second and CPU
	CPUs   []int // empty: all
	For    measure.Span
	Kernel bool // only samples inside the kernel
	User   bool // only samples outside the kernel
}

// Sample is one stack of a sampling. Frames are in the form of dtrace, innermost first.
type Sample struct {
	Process      string
	User, Kernel []string
	Count        int64
}

// Sampled is the result of a sampling.
type Sampled struct {
	Samples []Sample
	Began   measure.Time
	Took    measure.Span
	CPUs    int // number of sampled CPUs
	Notes   []string
	Loss    []measure.Loss
	CPU     measure.Span // CPU time of the recorder meanwhile
}

func appendProblems(b []byte, all []measure.Problem) []byte {
	b = appendUint(b, uint64(len(all)))
	for _, p := range all {
		b = appendString(appendString(b, p.Key), p.Text)
	}
	return b
}

func (d *decoder) problems() []measure.Problem {
	var all []measure.Problem
	for range d.count(2) {
		all = append(all, measure.Problem{Key: d.string(), Text: d.string()})
	}
	return all
}

// Usage is what the recorder takes.
type Usage struct {
	CPU    measure.Span // CPU time of the process since it started
	Memory int64        // resident bytes of the process and its parent
}

func appendStat(b []byte, st *measure.Stat) []byte {
	b = appendString(b, string(st.ID))
	b = append(b, byte(st.Kind), byte(st.Fold))
	b = appendBool(appendBool(appendBool(b, st.Sparse), st.Traced), st.Signed)
	b = appendString(appendString(b, string(st.Unit)), st.Help)
	b = appendUint(b, uint64(len(st.Fields)))
	for _, f := range st.Fields {
		b = appendString(b, f.Name)
		b = appendBool(append(b, byte(f.Type)), f.Overlaps)
		b = appendString(appendString(b, string(f.Unit)), f.Help)
	}
	b = appendString(appendString(b, st.Whole.Query), st.Whole.Rest)
	return appendString(b, st.Program)
}

func (d *decoder) stat() measure.Stat {
	st := measure.Stat{ID: measure.StatID(d.string())}
	st.Kind, st.Fold = measure.Kind(d.byte()), measure.Fold(d.byte())
	if st.Kind < measure.Delta || st.Kind > measure.Dists || st.Fold > measure.Min {
		d.fail("kind %d, fold %d", st.Kind, st.Fold)
	}
	st.Sparse, st.Traced, st.Signed = d.bool(), d.bool(), d.bool()
	st.Unit, st.Help = measure.Unit(d.string()), d.string()
	for range d.count(5) {
		f := measure.Field{Name: d.string(), Type: measure.Type(d.byte()), Overlaps: d.bool()}
		if f.Type < measure.Word || f.Type > measure.Stack {
			d.fail("field type %d", f.Type)
		}
		f.Unit, f.Help = measure.Unit(d.string()), d.string()
		st.Fields = append(st.Fields, f)
	}
	st.Whole.Query, st.Whole.Rest = d.string(), d.string()
	st.Program = d.string()
	return st
}

func appendStats(b []byte, all []measure.Stat) []byte {
	b = appendUint(b, uint64(len(all)))
	for i := range all {
		b = appendStat(b, &all[i])
	}
	return b
}

func (d *decoder) stats() []measure.Stat {
	var all []measure.Stat
	for range d.count(12) {
		all = append(all, d.stat())
	}
	return all
}

func appendQuery(b []byte, q *measure.Query) []byte {
	b = appendStrings(appendString(b, string(q.Stat)), q.By)
	b = appendUint(b, uint64(len(q.Where)))
	for _, t := range q.Where {
		b = appendStrings(append(appendString(b, t.Field), byte(t.Op)), t.Values)
	}
	b = appendInt(b, int64(q.Over.Start))
	return appendInt(b, int64(q.Step))
}

func (d *decoder) query() measure.Query {
	q := measure.Query{Stat: measure.StatID(d.string()), By: d.strings()}
	for range d.count(3) {
		t := measure.Term{Field: d.string(), Op: measure.Op(d.byte()), Values: d.strings()}
		if t.Op < measure.Equal || t.Op > measure.In || len(t.Values) == 0 {
			d.fail("comparison %d with %d values", t.Op, len(t.Values))
		}
		q.Where = append(q.Where, t)
	}
	q.Over.Start, q.Step = measure.Time(d.int()), measure.Span(d.int())
	return q
}

func appendLoss(b []byte, all []measure.Loss) []byte {
	b = appendUint(b, uint64(len(all)))
	for _, l := range all {
		b = appendUint(appendString(b, l.Reason), l.Events)
	}
	return b
}

func (d *decoder) loss() []measure.Loss {
	var all []measure.Loss
	for range d.count(2) {
		all = append(all, measure.Loss{Reason: d.string(), Events: d.uint()})
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
		return append(appendString(b, ""), 0)
	}
	b = appendString(b, err.Error())
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
		causes = appendString(appendString(causes, d.Doing), d.Needs)
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
		causes = appendString(causes, d.Text)
		causes = appendInt(appendInt(causes, int64(d.Pos)), int64(d.Len))
		causes = appendString(appendString(appendString(causes, d.Code), d.Message), d.Hint)
	}
	return append(append(b, n), causes...)
}

// error returns nil for an error without a text.
func (d *decoder) error() error {
	e := &Error{text: d.string()}
	for range int(d.byte()) {
		switch k := d.byte(); k {
		case errorUnsupported:
			e.causes = append(e.causes, measure.ErrUnsupported)
		case errorUnclear:
			e.causes = append(e.causes, measure.ErrUnclear)
		case errorTooLarge:
			e.causes = append(e.causes, measure.ErrTooLarge)
		case errorBudget:
			e.budget = true
		case errorDenied:
			e.causes = append(e.causes, &measure.Denied{Doing: d.string(), Needs: d.string()})
		case errorDiagnostic:
			g := &measure.Diagnostic{Text: d.string(), Pos: int(d.int()), Len: int(d.int())}
			g.Code, g.Message, g.Hint = d.string(), d.string(), d.string()
			g.Pos, g.Len = min(max(0, g.Pos), len(g.Text)), min(max(0, g.Len), len(g.Text))
			e.causes = append(e.causes, g)
		default:
			d.fail("error kind %d", k)
		}
	}
	if e.text == "" || d.err != nil {
		return nil
	}
	return e
}
