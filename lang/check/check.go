package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"culprit/lang/syntax"
	"culprit/lang/words"
	"culprit/measure"
)

// most is the highest number of diagnostics.
const most = 20

// mostExpanded is the highest number of expressions that come from inlines and translators.
const mostExpanded = 100_000

// Check resolves names and types of a program. file and text are its source, for positions in
// messages. It returns a Program, or Diagnostics in the order of the text.
//
// Like dtrace it reads the text from top to bottom: a variable has a type once it is declared or
// assigned, and is unknown before.
func Check(
	file, text string, prog *syntax.Program, env Env, o Options,
) (*Program, syntax.Diagnostics) {
	var known map[string]*ident
	if o.Bpftrace {
		env = &knownProbes{env, map[string][]*Probe{}}
		known = learn(file, text, prog, env, o)
	}
	c := newChecker(file, text, env, o)
	c.assume(known)
	c.program(prog)
	if len(c.diags) > 0 {
		list := c.diags
		if c.full() { // TooMany stays last
			list = list[:most]
		}
		slices.SortStableFunc(
			list, func(a, b *syntax.Diagnostic) int { return cmp.Compare(a.Pos, b.Pos) },
		)
		return nil, c.diags
	}
	return c.prog, nil
}

// A checker checks one program. An expression with a mistake becomes a value without an expression,
// which every operation accepts silently, so that one mistake is reported once.
type checker struct {
	described  int // number of probe descriptions so far
	file, text string
	env        Env
	o          Options
	prog       *Program
	diags      syntax.Diagnostics
	types      *types

	globals, selfs, thiss map[string]*ident
	funcs                 map[string]*ident // enumerators and inlines, by name
	aggs                  map[string]*Aggregation
	// aggregations with a mistake: no further diagnostics about them
	spoilt   map[string]bool
	depth    int // nesting of inlines
	expanded int // expressions from inlines and translators

	clause *Clause
	// a probe of the clause was not found: consequences are not reported
	unfound   bool
	predicate bool               // inside a predicate
	body      *[]Stmt            // the list that receives statements
	spec      specUse            // actions of the clause so far, where order matters
	keys      []map[string]value // arguments of the inlines and translators being expanded

	translators []*translator
	lib         *library    // the library whose text is being checked; nil: the program's text
	use         syntax.Span // the use in the program that needs the library
	loaded      map[string]bool
	after       []string // clauses of probes' meanings that run after all others
	// learning: types are searched for, and an unknown variable is no mistake
	learning bool
}

func newChecker(file, text string, env Env, o Options) *checker {
	c := &checker{
		file: file, text: text, env: env, o: o,
		prog:    &Program{Text: text, File: file},
		globals: map[string]*ident{}, selfs: map[string]*ident{}, thiss: map[string]*ident{},
		funcs: map[string]*ident{},
		aggs:  map[string]*Aggregation{}, loaded: map[string]bool{}, spoilt: map[string]bool{},
	}
	c.types = newTypes(c)
	c.startOptions()
	return c
}

// fail reports a mistake at a position. It returns the diagnostic, so that the caller can add a
// hint.
func (c *checker) fail(
	at syntax.Span, code syntax.Code, tag, format string, args ...any,
) *syntax.Diagnostic {
	if c.lib != nil { // report it at the use in the program
		at = c.use
	}
	d := syntax.Diagnose(c.file, c.text, at, code, fmt.Sprintf(format, args...), "")
	d.Tag = tag
	if len(c.diags) == most {
		d.Code, d.Tag, d.Message, d.Hint = syntax.TooMany, "",
			"too many errors; the rest of the text is not checked", "correct the errors above first"
	}
	if len(c.diags) > most ||
		slices.ContainsFunc(
			c.diags, func(e *syntax.Diagnostic) bool { return e.Pos == d.Pos && e.Code == d.Code },
		) {
		return d
	}
	c.diags = append(c.diags, d)
	return d
}

// warn reports a valid but probably unintended construct.
func (c *checker) warn(at syntax.Span, code syntax.Code, format string, args ...any) {
	if len(c.prog.Warnings) < most {
		c.prog.Warnings = append(
			c.prog.Warnings,
			syntax.Diagnose(c.file, c.text, at, code, fmt.Sprintf(format, args...), ""),
		)
	}
}

// language returns the language of the program's text.
func (c *checker) language() words.Language {
	if c.o.Bpftrace {
		return words.Bpftrace
	}
	return words.D
}

// foreignWord adds to a diagnostic what a word of another tracer is called here. It reports whether
// the word is one.
func (c *checker) foreignWord(d *syntax.Diagnostic, name string) bool {
	hint := words.Hint(c.language(), name)
	if hint != "" {
		d.Hint = hint
	}
	return hint != ""
}

// near adds the known name that a name is a mistyped form of to a diagnostic.
func near(d *syntax.Diagnostic, name string, candidates []string) *syntax.Diagnostic {
	slices.Sort(candidates)
	d.Near = measure.Typo(name, candidates)
	return d
}

// full reports whether the limit of diagnostics is reached.
func (c *checker) full() bool { return len(c.diags) > most }

func (c *checker) program(prog *syntax.Program) {
	for _, item := range prog.Items { // options may be anywhere and apply to the whole text
		if p, ok := item.(*syntax.Pragma); ok {
			c.pragma(p)
		}
	}
	c.unusedMacros()
	syntax.Walk(prog, func(n syntax.Node) bool {
		if m, ok := n.(*syntax.Macro); ok {
			if _, ok := c.o.Macro(m.Name); !ok {
				d := c.noMacro(m.At(), "$"+m.Name)
				if d.Hint == "" && strings.Trim(m.Name, "0123456789") != "" {
					d.Hint = "this->" + m.Name + " is a clause-local variable"
				}
			}
		}
		return true
	})
	for _, item := range prog.Items {
		if c.full() {
			return
		}
		switch item := item.(type) {
		case *syntax.Declaration:
			c.declaration(item)
		case *syntax.Inline:
			c.inline(item)
		case *syntax.Translator:
			c.translator(item)
		case *syntax.Clause:
			c.oneClause(item)
		}
	}
	for _, text := range c.after {
		c.hidden(text)
	}
	c.prog.Options = c.o
	for _, item := range prog.Items {
		if p, ok := item.(*syntax.Pragma); ok && p.Kind.Text == "attributes" {
			c.attributes(p)
		}
	}
}

// attributes checks #pragma D attributes, which sets the stability of a name; it has no other
// effect here.
func (c *checker) attributes(p *syntax.Pragma) {
	if len(p.Words) != 2 {
		return
	}
	name := p.Words[1]
	if c.globals[name.Text] == nil && c.funcs[name.Text] == nil && c.selfs[name.Text] == nil &&
		c.thiss[name.Text] == nil {
		c.fail(
			name.At(), UnusedPragma, "D_PRAGMA_UNUSED", "attributes for the unknown name %s",
			name.Text,
		)
	}
}

func (c *checker) oneClause(s *syntax.Clause) {
	var all []*Probe
	numbers := map[uint32]int{}
	before := len(c.diags)
	defer func() { c.unfound = false }()
	// a probe that two descriptions match is listed twice: its clause runs twice
	for i, p := range s.Probes {
		found := c.probes(p)
		all = append(all, found...)
		for _, probe := range found {
			if _, had := numbers[probe.ID]; !had {
				numbers[probe.ID] = c.described + i
			}
			for c.prog.stride <= probe.ID {
				c.prog.stride = max(2*c.prog.stride, 16)
			}
		}
	}
	c.unfound = len(c.diags) > before
	for _, group := range c.byLayout(s, c.meanings(s, all)) {
		c.clauseAt(s, group, numbers)
	}
	if c.lib == nil {
		c.described += len(s.Probes)
	}
}

// clauseAt checks a clause for probes of equal meaning: they share its code.
func (c *checker) clauseAt(s *syntax.Clause, probes []*Probe, numbers map[uint32]int) {
	cl := &Clause{
		Index:   len(c.prog.Clauses),
		numbers: numbers,
		At:      s.At(),
		Probes:  probes,
		Default: s.Body == nil,
		Hidden:  c.lib != nil,

		Loop:      s.Loop,
		Continues: s.Continues,
	}
	c.clause, c.spec = cl, specUse{}
	c.body = &cl.Body
	later := s.Predicate != nil && c.ahead(s.Predicate)
	if !later {
		c.predicateOf(s)
	}
	if s.Body != nil {
		c.block(s.Body)
	} else {
		c.add(&Record{place: place{s.At()}, Action: Action{Kind: DefaultTrace}})
	}
	if later {
		c.predicateOf(s)
	}
	c.when()
	c.prog.Clauses = append(c.prog.Clauses, cl)
	c.clause = nil
}

// ahead reports whether a predicate uses a variable that is not known yet: the clause itself may
// create it.
func (c *checker) ahead(e syntax.Expr) bool {
	made, out := map[string]bool{}, false
	syntax.Walk(e, func(n syntax.Node) bool {
		var target syntax.Expr
		switch n := n.(type) {
		case *syntax.Step:
			target = n.X
		case *syntax.Assign:
			target = n.X
		case *syntax.Ident:
			key := scopeName(homeOf(n.Scope), n.Name)
			if n.Scope != syntax.ScopeKernel && !made[key] && c.lookup(n) == nil &&
				(n.Scope != syntax.ScopeGlobal ||
					c.funcs[n.Name] == nil && builtins[n.Name].name == "" &&
						libraryIdent(n.Name) == nil) {
				out = true
			}
		}
		if id, ok := target.(*syntax.Ident); ok {
			made[scopeName(homeOf(id.Scope), id.Name)] = true
		}
		return !out
	})
	return out
}

func (c *checker) predicateOf(s *syntax.Clause) {
	if s.Predicate == nil {
		return
	}
	c.predicate = true
	v := c.expr(s.Predicate)
	c.predicate = false
	if !v.ok() {
		return
	}
	if !v.scalar() {
		d := c.fail(
			s.Predicate.At(), PredicateType, "D_PRED_SCALAR",
			"a predicate must be a number or a pointer, not %s", v.t,
		)
		if v.isString() {
			d.Hint = "compare it: != \"\""
		}
		return
	}
	c.clause.Predicate = v.x
	if _, set := v.x.(*Assign); set {
		c.warn(s.Predicate.At(), AssignInPredicate, "assignment in a predicate; use == to compare")
	}
}

// probes returns the probes that a description matches.
func (c *checker) probes(p *syntax.Probe) []*Probe {
	named, before := *p, len(c.diags)
	for _, part := range []*syntax.Name{&named.Provider, &named.Module, &named.Function,
		&named.Name} {
		part.Text = c.macrosIn(
			part.Text, p.At(), part == &named.Function && syntax.OfProcess(named.Provider.Text),
		)
	}
	if len(c.diags) > before {
		return nil
	}
	found, err := c.env.Probes(&named)
	if err == nil && len(found) > 0 {
		return found
	}
	if c.o.Probes {
		return nil
	}
	d := c.fail(p.At(), NoProbe, "D_PDESC_ZERO", "no probe matches %s", syntax.Print(&named))
	var reason *syntax.Diagnostic
	switch {
	case errors.As(err, &reason):
		d.Message, d.Hint, d.Near = reason.Message, reason.Hint, reason.Near
		if reason.Tag != "" {
			d.Tag = reason.Tag
		}
	case err != nil:
		d.Message = err.Error()
	}
	return nil
}

func (c *checker) block(b *syntax.Block) {
	for _, s := range b.List {
		if c.full() {
			return
		}
		switch s := s.(type) {
		case *syntax.Do:
			c.do(s)
		case *syntax.If:
			c.ifElse(s)
		}
	}
}

func (c *checker) ifElse(s *syntax.If) {
	v := c.expr(s.Cond)
	if v.ok() && !v.scalar() {
		c.fail(
			s.Cond.At(), PredicateType, "D_PRED_SCALAR",
			"a condition must be a number or a pointer, not %s", v.t,
		)
	}
	out := &If{place: place{s.At()}, Cond: v.x}
	outer, before := c.body, c.spec
	c.body = &out.Then
	c.block(s.Then)
	then := c.spec
	c.spec = before
	if s.Else != nil {
		c.body = &out.Else
		c.block(s.Else)
	}
	c.spec = specUse{
		c.spec.recorded || then.recorded,
		c.spec.speculated || then.speculated,
		c.spec.committed || then.committed,
	}
	c.body = outer
	c.add(out)
}

func (c *checker) add(s Stmt) { *c.body = append(*c.body, s) }

// do checks an expression used as a statement.
func (c *checker) do(s *syntax.Do) {
	switch x := s.X.(type) {
	case *syntax.Call:
		if c.foreignAction(x, s.At()) || c.action(x, s.At()) {
			return
		}
	case *syntax.Assign:
		if a, ok := x.X.(*syntax.Aggregation); ok {
			c.aggregate(a, x)
			return
		}
	case *syntax.Aggregation:
		tag := "D_IDENT_UNDEF"
		if c.aggs[x.Name] != nil || x.Keys != nil {
			tag = "D_AGG_NULL"
		}
		d := c.fail(x.At(), BareAggregation, tag,
			"an aggregation without an assignment has no effect")
		d.Hint = "@" + x.Name + " = count()"
		return
	case *syntax.Cond:
		if isAction(x.Then) || isAction(x.Else) { // one of the two runs
			c.ifElse(&syntax.If{Span: s.Span, Cond: x.If, Then: alone(x.Then), Else: alone(x.Else)})
			return
		}
	case *syntax.Binary:
		switch {
		case x.Op == syntax.Comma: // a, b: both may be actions
			c.do(&syntax.Do{Span: x.X.At(), X: x.X})
			c.do(&syntax.Do{Span: x.Y.At(), X: x.Y})
			return
		case x.Op == syntax.LogAnd && isAction(x.Y): // runs if x.X is true
			c.ifElse(&syntax.If{Span: s.Span, Cond: x.X, Then: alone(x.Y)})
			return
		case x.Op == syntax.LogOr && isAction(x.Y): // runs if x.X is false
			c.ifElse(&syntax.If{Span: s.Span, Cond: x.X, Then: &syntax.Block{Span: x.X.At()},
				Else: alone(x.Y)})
			return
		}
	}
	v := c.exprAny(s.X)
	if v.xl != nil {
		c.fail(s.At(), NoValue, "D_CG_DYN", "a translation without a use has no effect")
		return
	}
	if v.ok() {
		c.add(&Do{place: place{s.At()}, X: v.x})
	}
}

// isAction reports whether an expression statement performs an action or assigns to an aggregation,
// always or depending on a condition.
func isAction(e syntax.Expr) bool {
	switch e := e.(type) {
	case *syntax.Call:
		return actions[e.Func.Text] != nil
	case *syntax.Assign:
		_, ok := e.X.(*syntax.Aggregation)
		return ok
	case *syntax.Cond:
		return isAction(e.Then) || isAction(e.Else)
	case *syntax.Binary:
		return e.Op == syntax.Comma && isAction(e.X) ||
			(e.Op == syntax.Comma || e.Op == syntax.LogAnd || e.Op == syntax.LogOr) && isAction(e.Y)
	}
	return false
}

// alone makes a block of an expression; a constant makes an empty one.
func alone(e syntax.Expr) *syntax.Block {
	b := &syntax.Block{Span: e.At()}
	if _, nothing := e.(*syntax.Int); !nothing {
		b.List = []syntax.Stmt{&syntax.Do{Span: e.At(), X: e}}
	}
	return b
}

// names returns the keys of a map.
func names[V any](m map[string]V) []string {
	var out []string
	for name := range m {
		out = append(out, name)
	}
	return out
}

// macrosIn replaces the macros in a part of a probe description.
func (c *checker) macrosIn(text string, at syntax.Span, symbol bool) string {
	return c.o.Expand(text, symbol, func(name string) {
		c.noMacro(at, name)
	})
}

// noMacro reports a macro, with its $, that has no value.
func (c *checker) noMacro(at syntax.Span, name string) *syntax.Diagnostic {
	d := c.fail(at, syntax.UnknownMacro, "D_MACRO_UNDEF", "undefined macro %s", name)
	d.Hint = MacroHint(name)
	return d
}

// MacroHint returns how to define a macro, with its $; "": there is no advice.
func MacroHint(name string) string {
	if name = strings.TrimLeft(name, "$"); name == "target" {
		return "-p PID or -c COMMAND sets it"
	}
	return ""
}

// Expand replaces the macros in a part of a probe description. It calls missing for each undefined
// one, with its $. In a symbol - the name of a function in a process - a $ that begins no macro is
// part of the name. A \$ stays.
func (o Options) Expand(text string, symbol bool, missing func(name string)) string {
	if !strings.Contains(text, "$") {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		if text[i] == '\\' && i+1 < len(text) {
			out.WriteString(text[i : i+2])
			i += 2
			continue
		}
		if text[i] != '$' {
			out.WriteByte(text[i])
			i++
			continue
		}
		from := i
		for i < len(text) && text[i] == '$' {
			i++
		}
		start := i
		for i < len(text) && (text[i] == '_' || text[i] >= '0' && text[i] <= '9' ||
			text[i]|0x20 >= 'a' && text[i]|0x20 <= 'z' && text[start] > '9') {
			i++
		}
		value, ok := o.Macro(text[start:i])
		if !ok && symbol && (start == i || text[start] > '9') {
			out.WriteString(`\$`)
			i = from + 1
			continue
		}
		if !ok {
			missing(text[from:i])
		}
		out.WriteString(strings.Trim(value, `"`))
	}
	return out.String()
}
