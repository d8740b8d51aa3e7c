package ir

import (
	"fmt"
	"strings"

	"culprit/lang/check"
)

// String returns the program as text, for debugging and golden files: all locations, then one step
// per line.
func (p *Program) String() string {
	var w strings.Builder
	fmt.Fprintf(
		&w, "strings %d, globals %d, self %d, this %d, scratch %d", p.StrSize, p.Globals, p.Self,
		p.This, p.Scratch,
	)
	if p.Alloca.Size > 0 {
		fmt.Fprintf(&w, ", alloca %d:%d", p.Alloca.Off, p.Alloca.Off+p.Alloca.Size)
	}
	w.WriteString("\n")
	if len(p.Literals) > 0 {
		fmt.Fprintf(&w, "literals")
		for off := 0; off < len(p.Literals)-p.StrSize; {
			s := text0(p.Literals[off:])
			fmt.Fprintf(&w, " %d:%q", off, s)
			off += round(len(s)+1, 8)
		}
		w.WriteString("\n")
	}
	for i, t := range p.Tables {
		fmt.Fprintf(&w, "table%d %s: %v, value %d\n", i, varName(t.Var), t.Key, t.Value)
	}
	for _, v := range p.Source.Vars {
		if pl := p.Places[v.ID]; pl.Table < 0 {
			fmt.Fprintf(&w, "%s: %v at %v\n", varName(v), v.Type, pl.Mem)
		}
	}
	for i, a := range p.Aggs {
		if a.Agg == nil {
			continue
		}
		fmt.Fprintf(
			&w, "agg%d @%s = %s: %v, value %d", i, a.Agg.Name, aggName(a.Agg.Func), a.Key, a.Value,
		)
		if a.Buckets > 0 {
			fmt.Fprintf(&w, ", %d buckets", a.Buckets)
		}
		if a.Sparse {
			w.WriteString(", sparse")
		}
		if a.Marked {
			w.WriteString(", marked")
		}
		w.WriteString("\n")
	}
	for i, r := range p.Records {
		fmt.Fprintf(&w, "record%d of clause %d, %d bytes:", i, r.Clause, r.Size)
		for _, a := range r.Actions {
			fmt.Fprintf(&w, " %s(", actionName(a.Action.Action.Kind))
			for j, f := range a.Fields {
				if j > 0 {
					w.WriteString(", ")
				}
				if f.Size == 0 {
					w.WriteString("constant")
				} else {
					fmt.Fprintf(&w, "%v", f)
				}
			}
			w.WriteString(")")
		}
		w.WriteString("\n")
	}
	for i, f := range p.Clauses {
		fmt.Fprintf(&w, "\nclause %d\n%v", i, f)
	}
	return w.String()
}

// text0 returns the bytes before the first 0.
func text0(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}

func varName(v *check.Var) string {
	return [...]string{check.Global: "", check.Self: "self->", check.This: "this->"}[v.Home] +
		v.Name
}

// String returns the fields of a tuple: "(int 4@0, string 16@8) 24".
func (t Tuple) String() string {
	var parts []string
	if t.Thread {
		parts = append(parts, "thread 8@0")
	}
	for _, f := range t.Fields {
		parts = append(parts, f.String())
	}
	return fmt.Sprintf("(%s) %d", strings.Join(parts, ", "), t.Size)
}

// String returns type, size and offset: "int 4@24".
func (f TupleField) String() string { return fmt.Sprintf("%v %d@%d", f.Type, f.Size, f.Offset) }

// String returns the steps of a clause, one per line.
func (f *Func) String() string {
	var w strings.Builder
	for i, b := range f.Blocks {
		fmt.Fprintf(&w, "b%d:\n", i)
		for _, s := range b.Steps {
			fmt.Fprintf(&w, "  %v\n", s)
		}
	}
	return w.String()
}

// String returns the register: r3.
func (r Reg) String() string { return fmt.Sprintf("r%d", int32(r)) }

// String returns the place: globals[8].
func (m Mem) String() string {
	if m.Base == InValue {
		return fmt.Sprintf("[%v + %d]", m.Reg, m.Off)
	}
	return fmt.Sprintf(
		"%s[%d]",
		[...]string{InScratch: "scratch", InGlobals: "globals", InSelf: "self",
			InLiteral: "literal"}[m.Base],
		m.Off,
	)
}

func (m Mem) span(size int) string {
	if m.Base == InValue {
		return fmt.Sprintf("[%v + %d:%d]", m.Reg, m.Off, m.Off+size)
	}
	return strings.TrimSuffix(m.String(), "]") + fmt.Sprintf(":%d]", m.Off+size)
}

func kind(size int, signed bool) string {
	if signed {
		return fmt.Sprintf("s%d", 8*size)
	}
	return fmt.Sprintf("u%d", 8*size)
}

// operand returns a register, or the constant used instead.
func operand(r Reg, imm int64) string {
	if r == None {
		return fmt.Sprint(imm)
	}
	return r.String()
}

// condWords are the names of conditions.
//
// table: names
var condWords = [...]string{Eq: "==", Ne: "!=", Lt: "<", Le: "<=", Gt: ">", Ge: ">="}

func (s *Step) cond() string {
	w := condWords[s.Cond]
	if s.Cond > Ne && !s.Signed {
		w += "u"
	}
	return w
}

// opWords are the names of operators.
//
// table: names
var opWords = map[Opcode]string{
	OpAdd: "+",
	OpSub: "-",
	OpMul: "*",
	OpDiv: "/",
	OpMod: "%",
	OpAnd: "&",
	OpOr:  "|",
	OpXor: "^",
	OpShl: "<<",
	OpShr: ">>",
}

// spaceWords are the names of spaces.
//
// table: names
var spaceWords = [...]string{
	check.Kernel: "kernel",
	check.User:   "user",
	check.Typed:  "typed",
	check.Own:    "own",
}

// String returns a step: "r2 = r0 + r1".
func (s Step) String() string {
	dst := ""
	if s.Dst != None {
		dst = s.Dst.String() + " = "
	}
	at := ""
	if s.A != None {
		at = s.A.String()
		if s.Imm != 0 {
			at += fmt.Sprintf(" + %d", s.Imm)
		}
	}
	switch s.Op {
	case OpConst:
		return fmt.Sprintf("%s%d", dst, s.Imm)
	case OpMove:
		return fmt.Sprintf("%s%v", dst, s.A)
	case OpAdd, OpSub, OpMul, OpDiv, OpMod, OpAnd, OpOr, OpXor, OpShl, OpShr:
		w := opWords[s.Op]
		if (s.Op == OpDiv || s.Op == OpMod || s.Op == OpShr) && !s.Signed {
			w += "u"
		}
		return fmt.Sprintf("%s%v %s %s", dst, s.A, w, operand(s.B, s.Imm))
	case OpNeg:
		return fmt.Sprintf("%s-%v", dst, s.A)
	case OpNot:
		return fmt.Sprintf("%s~%v", dst, s.A)
	case OpExtend:
		return fmt.Sprintf("%s%s %v", dst, kind(s.Size, s.Signed), s.A)
	case OpSet:
		return fmt.Sprintf("%s%v %s %s", dst, s.A, s.cond(), operand(s.B, s.Imm))
	case OpJump:
		return fmt.Sprintf("goto b%d", s.To)
	case OpBranch:
		return fmt.Sprintf(
			"if %v %s %s goto b%d else b%d", s.A, s.cond(), operand(s.B, s.Imm), s.To, s.Else,
		)
	case OpLoad:
		return fmt.Sprintf("%s%s %v", dst, kind(s.Size, s.Signed), s.Mem)
	case OpStore:
		return fmt.Sprintf("%s %v = %s", kind(s.Size, false), s.Mem, operand(s.A, s.Imm))
	case OpZero:
		return fmt.Sprintf("zero %s", s.Mem.span(s.Size))
	case OpCopy:
		return fmt.Sprintf("%s = %s", s.Mem.span(s.Size), s.From.span(s.Size))
	case OpAddress:
		return fmt.Sprintf("%s&%v", dst, s.Mem)
	case OpRead:
		return fmt.Sprintf("%sread %s %s[%s]", dst, kind(s.Size, s.Signed), spaceWords[s.Space], at)
	case OpReadMem:
		n := ""
		if s.B != None {
			n = fmt.Sprintf(", %v bytes", s.B)
		}
		return fmt.Sprintf("%s = read %s[%v]%s", s.Mem.span(s.Size), spaceWords[s.Space], s.A, n)
	case OpReadStr:
		return fmt.Sprintf(
			"%sread string %s = %s[%v], at most %d", dst, s.Mem.span(s.Size), spaceWords[s.Space],
			s.A, s.Imm,
		)
	case OpPoke:
		return fmt.Sprintf("poke %s[%s] = %v", kind(s.Size, false), at, s.B)
	case OpBuiltin:
		return fmt.Sprintf("%s%s", dst, builtinName(s.Which, s.N))
	case OpBuiltinStr:
		return fmt.Sprintf("%s = %s", s.Mem.span(s.Size), builtinName(s.Which, s.N))
	case OpStrCompare:
		w := "compare"
		if s.Cond == Eq {
			w = "differ"
		}
		return fmt.Sprintf("%s%s %s, %s", dst, w, s.Mem.span(s.Size), s.From.span(s.Size))
	case OpCall:
		var args []string
		for _, m := range []Mem{s.From, s.From2} {
			if m != nowhere {
				args = append(args, m.String())
			}
		}
		for i, r := range []Reg{s.A, s.B, s.C} {
			if r != None {
				args = append(args, fmt.Sprintf("%c=%v", 'A'+i, r))
			}
		}
		to := ""
		if s.Size > 0 {
			to = s.Mem.span(s.Size) + " = "
		}
		return fmt.Sprintf("%s%s%s(%s)", dst, to, subName(s.Sub), strings.Join(args, ", "))
	case OpFind, OpMake:
		w := "find"
		if s.Op == OpMake {
			w = "make"
		}
		return fmt.Sprintf("%s%s table%d %v", dst, w, s.N, s.Mem)
	case OpDelete:
		return fmt.Sprintf("delete table%d %v", s.N, s.Mem)
	case OpAggregate:
		parts := []string{fmt.Sprintf("aggregate agg%d %v", s.N, s.Mem)}
		if s.A != None {
			parts = append(parts, s.A.String())
		}
		if s.B != None {
			parts = append(parts, "weight "+s.B.String())
		}
		return strings.Join(parts, ", ")
	case OpStack:
		return fmt.Sprintf("%s%s stack of %d", dst, spaceWords[s.Space], s.N)
	case OpEmit:
		return fmt.Sprintf("emit record%d %s", s.N, s.Mem.span(s.Size))
	case OpExit:
		return "exit"
	case OpSpeculate:
		return dst + "speculation"
	case OpAct:
		var args []string
		for i, r := range []Reg{s.A, s.B, s.C} {
			if r != None {
				args = append(args, fmt.Sprintf("%c=%v", 'A'+i, r))
			}
		}
		return fmt.Sprintf("%s(%s)", actionName(check.ActionKind(s.N)), strings.Join(args, ", "))
	case OpRan:
		return "ran"
	case OpFault:
		return fmt.Sprintf("fault %v %s", s.Fault, operand(s.A, s.Imm))
	case OpEnd:
		return "end"
	}
	return fmt.Sprintf("op %d", s.Op)
}

// String returns the fault's name, without DTRACEFLT_.
func (f Fault) String() string {
	names := [...]string{
		"UNKNOWN",
		"BADADDR",
		"BADALIGN",
		"ILLOP",
		"DIVZERO",
		"NOSCRATCH",
		"KPRIV",
		"UPRIV",
		"TUPOFLOW",
		"BADSTACK",
		"BADSIZE",
		"BADINDEX",
	}
	if int(f) < len(names) {
		return names[f]
	}
	return names[0]
}

func name(names []string, n int) string {
	if n < len(names) && names[n] != "" {
		return names[n]
	}
	return fmt.Sprint(n)
}

func aggName(f check.AggFunc) string {
	return name(
		[]string{
			"count",
			"sum",
			"min",
			"max",
			"avg",
			"stddev",
			"quantize",
			"lquantize",
			"llquantize",
		},
		int(f),
	)
}

func actionName(k check.ActionKind) string {
	return name([]string{
		check.Trace: "trace", check.Printf: "printf", check.Printa: "printa", check.Stack: "stack",
		check.UStack: "ustack", check.Exit: "exit",
		check.Clear: "clear", check.Trunc: "trunc", check.Normalize: "normalize",
		check.Denormalize: "denormalize", check.Tracemem: "tracemem",
		check.Print: "print", check.Symbol: "symbol", check.System: "system",
		check.Freopen: "freopen", check.Setopt: "setopt",
		check.Ftruncate: "ftruncate", check.Speculate: "speculate", check.Commit: "commit",
		check.Discard: "discard", check.Raise: "raise",
		check.Stop: "stop", check.Chill: "chill", check.Panic: "panic", check.Copyout: "copyout",
		check.Copyoutstr:   "copyoutstr",
		check.DefaultTrace: "default",
	}, int(k))
}

func builtinName(which check.BuiltinVar, n int) string {
	w := name([]string{
		check.BuiltinArg: "arg", check.BuiltinCaller: "caller", check.BuiltinCPU: "cpu",
		check.BuiltinCurthread: "curthread",
		check.BuiltinEPID:      "epid", check.BuiltinErrno: "errno",
		check.BuiltinExecname: "execname",
		check.BuiltinGID:      "gid",
		check.BuiltinID:       "id", check.BuiltinIPL: "ipl", check.BuiltinPID: "pid",
		check.BuiltinPPID:      "ppid",
		check.BuiltinProbeFunc: "probefunc", check.BuiltinProbeMod: "probemod",
		check.BuiltinProbeName: "probename",
		check.BuiltinProbeProv: "probeprov", check.BuiltinStackDepth: "stackdepth",
		check.BuiltinTID:       "tid",
		check.BuiltinTimestamp: "timestamp", check.BuiltinUCaller: "ucaller",
		check.BuiltinFrame: "frame", check.BuiltinUFrame: "uframe", check.BuiltinUID: "uid",
		check.BuiltinURegs:       "uregs",
		check.BuiltinUStackDepth: "ustackdepth", check.BuiltinVTimestamp: "vtimestamp",
		check.BuiltinWallTimestamp: "walltimestamp",
		check.BuiltinReturn:        "return", check.BuiltinSite: "site",
		check.BuiltinExecargs: "execargs",
	}, int(which))
	if which == check.BuiltinArg || which == check.BuiltinSite || which == check.BuiltinURegs ||
		which == check.BuiltinFrame ||
		which == check.BuiltinUFrame {
		return fmt.Sprint(w, n)
	}
	if which == check.BuiltinTID && n == Unique {
		return "unique " + w
	}
	return w
}

func subName(s check.Subroutine) string {
	return name([]string{
		check.SubAlloca: "alloca", check.SubBasename: "basename", check.SubBcopy: "bcopy",
		check.SubCleanpath: "cleanpath",
		check.SubCopyin:    "copyin", check.SubCopyinstr: "copyinstr",
		check.SubCopyinto:    "copyinto",
		check.SubDDIPathname: "ddi_pathname",
		check.SubDirname:     "dirname", check.SubGetf: "getf", check.SubGetmajor: "getmajor",
		check.SubGetminor: "getminor",
		check.SubHtonl:    "htonl", check.SubHtonll: "htonll", check.SubHtons: "htons",
		check.SubIndex: "index", check.SubInetNtoa: "inet_ntoa",
		check.SubInetNtoa6: "inet_ntoa6", check.SubInetNtop: "inet_ntop",
		check.SubLinkNtop: "link_ntop", check.SubLltostr: "lltostr",
		check.SubMutexOwned: "mutex_owned", check.SubMutexOwner: "mutex_owner",
		check.SubMutexTypeAdaptive: "mutex_type_adaptive",
		check.SubMutexTypeSpin:     "mutex_type_spin", check.SubNtohl: "ntohl",
		check.SubNtohll: "ntohll", check.SubNtohs: "ntohs",
		check.SubProgenyof: "progenyof", check.SubRand: "rand", check.SubRindex: "rindex",
		check.SubRwIswriter: "rw_iswriter",
		check.SubRwReadHeld: "rw_read_held", check.SubRwWriteHeld: "rw_write_held",
		check.SubSpeculation: "speculation",
		check.SubStrchr:      "strchr", check.SubStrjoin: "strjoin", check.SubStrlen: "strlen",
		check.SubStrrchr: "strrchr", check.SubStrstr: "strstr",
		check.SubStrtok: "strtok", check.SubStrtoll: "strtoll", check.SubSubstr: "substr",
		check.SubTolower: "tolower",
		check.SubToupper: "toupper", check.SubPath: "d_path", check.SubFileOf: "file_of",
	}, int(s))
}
