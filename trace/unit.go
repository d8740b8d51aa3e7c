package trace

import (
	"slices"
	"strings"

	"culprit/lang/check"
	"culprit/lang/syntax"
	"culprit/measure"
)

// meanings derive the units of aggregations' values from the text: differences of clocks are times,
// and results of reads and writes are bytes. Other values are plain numbers.
type meanings struct {
	given map[*check.Var][]check.Expr // the expressions that are assigned to each variable
	seen  map[*check.Var]bool         // variables whose meaning is being computed
}

// A meaning is the unit of a number.
type meaning struct {
	unit  measure.Unit // "" not known
	clock bool         // a moment
	per   int64        // of a time: nanoseconds in one
}

// table: the unit of nanoseconds that were divided by the key
var times = map[int64]measure.Unit{1: measure.Nanoseconds, 1e3: "us", 1e6: "ms", 1e9: "s"}

// table: system calls that return the number of bytes that were read or written
var transfers = []string{
	"read",
	"pread64",
	"readv",
	"preadv",
	"preadv2",
	"write",
	"pwrite64",
	"writev",
	"pwritev",
	"pwritev2",
	"recvfrom",
	"recvmsg",
	"sendto",
	"sendmsg",
	"sendfile",
	"sendfile64",
	"splice",
	"copy_file_range",
}

// table: members that contain bytes, in any struct
var byteMembers = []string{
	"b_bcount",
	"bytes",
	"nbytes",
	"nr_bytes",
	"bytes_req",
	"bytes_alloc",
	"bytes_acked",
	"skb_len",
	"data_len",
}

func newMeanings(p *check.Program) *meanings {
	u := &meanings{given: map[*check.Var][]check.Expr{}, seen: map[*check.Var]bool{}}
	for _, c := range p.Clauses {
		each := func(s check.Stmt) {
			if do, ok := s.(*check.Do); ok {
				if set, ok := do.X.(*check.Assign); ok && set.Op == syntax.Set {
					if v, ok := set.X.(*check.VarRef); ok {
						u.given[v.Var] = append(u.given[v.Var], set.Y)
					}
				}
			}
		}
		statements(c.Body, each)
	}
	return u
}

// statements calls each with every statement, including nested ones.
func statements(list []check.Stmt, each func(check.Stmt)) {
	for _, s := range list {
		each(s)
		if i, ok := s.(*check.If); ok {
			statements(i.Then, each)
			statements(i.Else, each)
		}
	}
}

// of returns the unit of an expression that a clause adds to an aggregation.
func (u *meanings) of(p *check.Program, c *check.Clause, x check.Expr) measure.Unit {
	m := u.meaning(x)
	if m.unit != "" || m.clock {
		return m.unit
	}
	text := strings.ReplaceAll(p.Text[x.Place().From:x.Place().To], " ", "")
	all := func(name string, calls []string) bool {
		return !slices.ContainsFunc(c.Probes, func(p *check.Probe) bool {
			return p.Provider != "syscall" || p.Name != name || !slices.Contains(calls, p.Function)
		})
	}
	switch text {
	case "arg0", "arg1", "args[0]", "args[1]":
		if all("return", transfers) {
			return measure.Bytes
		}
	case "arg2", "args[2]":
		if all("entry", []string{"read", "pread64", "write", "pwrite64", "recvfrom", "sendto"}) {
			return measure.Bytes
		}
	}
	if i := strings.LastIndexAny(text, ">."); i >= 0 && slices.Contains(byteMembers, text[i+1:]) {
		return measure.Bytes
	}
	return ""
}

func (u *meanings) meaning(x check.Expr) meaning {
	switch x := x.(type) {
	case *check.Convert:
		return u.meaning(x.X)
	case *check.Builtin:
		switch x.Which {
		case check.BuiltinTimestamp, check.BuiltinVTimestamp, check.BuiltinWallTimestamp:
			return meaning{clock: true}
		}
	case *check.VarRef:
		return u.variable(x.Var)
	case *check.Binary:
		a, b := u.meaning(x.X), u.meaning(x.Y)
		switch {
		case x.Op == syntax.Sub && a.clock && b.clock:
			return meaning{unit: times[1], per: 1}
		case (x.Op == syntax.Sub || x.Op == syntax.Add) && a.per > 0 && a == b:
			return a
		case x.Op == syntax.Div && a.per > 0:
			n, ok := x.Y.(*check.Const)
			if ok && n.Value > 0 && n.Value <= 1e9 && times[a.per*n.Value] != "" {
				return meaning{unit: times[a.per*n.Value], per: a.per * n.Value}
			}
		}
	}
	return meaning{}
}

// variable returns the meaning of a variable: the common meaning of all values assigned to it. 0 is
// ignored, because scripts assign it to clear a variable.
func (u *meanings) variable(v *check.Var) (m meaning) {
	if u.seen[v] {
		return m
	}
	u.seen[v] = true
	defer delete(u.seen, v)
	for _, x := range u.given[v] {
		if zero(x) {
			continue
		}
		is := u.meaning(x)
		if m != (meaning{}) && is != m {
			return meaning{}
		}
		m = is
	}
	return m
}

func zero(x check.Expr) bool {
	switch x := x.(type) {
	case *check.Const:
		return x.Value == 0
	case *check.Convert:
		return zero(x.X)
	}
	return false
}
