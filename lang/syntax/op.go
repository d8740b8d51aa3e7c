package syntax

// Op is an operator.
type Op uint8

// The operators. Those of Binary are in the order of their precedence, the loosest first; "as x"
// marks equal precedence. All of them are left-associative.
const (
	Set Op = iota // = of Assign alone

	Comma  // ,
	LogOr  // ||
	LogXor // ^^
	LogAnd // &&
	Or     // |
	Xor    // ^
	And    // &
	Eq     // ==
	Ne     // != as ==
	Lt     // <
	Le     // <= as <
	Gt     // > as <
	Ge     // >= as <
	Shl    // <<
	Shr    // >> as <<
	Add    // +
	Sub    // - as +
	Mul    // *
	Div    // / as *
	Mod    // % as *

	Plus   // + of Unary
	Neg    // - of Unary
	Not    // !
	BitNot // ~
	Deref  // * of Unary
	Addr   // & of Unary

	opCount
)

// Precedences. The conditional and the assignments are right-associative.
const (
	bindComma = iota + 1
	bindAssign
	bindCond
	bindLogOr
	bindLogXor
	bindLogAnd
	bindOr
	bindXor
	bindAnd
	bindEq
	bindLess
	bindShift
	bindAdd
	bindMul
	bindUnary // and casts
	bindPostfix
)

// ops are the text and the precedence of each operator.
//
// table: the grammar of each operator
var ops = [opCount]struct {
	text string
	bind uint8
}{
	Set:   {"=", bindAssign},
	Comma: {",", bindComma}, LogOr: {"||", bindLogOr}, LogXor: {"^^", bindLogXor},
	LogAnd: {"&&", bindLogAnd},
	Or:     {"|", bindOr}, Xor: {"^", bindXor}, And: {"&", bindAnd}, Eq: {"==", bindEq},
	Ne: {"!=", bindEq},
	Lt: {"<", bindLess}, Le: {"<=", bindLess}, Gt: {">", bindLess}, Ge: {">=", bindLess},
	Shl: {"<<", bindShift}, Shr: {">>", bindShift}, Add: {"+", bindAdd}, Sub: {"-", bindAdd},
	Mul: {"*", bindMul}, Div: {"/", bindMul}, Mod: {"%", bindMul},
	Plus: {"+", bindUnary}, Neg: {"-", bindUnary}, Not: {"!", bindUnary}, BitNot: {"~", bindUnary},
	Deref: {"*", bindUnary}, Addr: {"&", bindUnary},
}

// String returns the operator as it is written: "+".
func (op Op) String() string {
	if op < opCount {
		return ops[op].text
	}
	return "?"
}

// A token is a word or a symbol of the text. The text of a token is p.text[from:to].
type token struct {
	kind     kind
	from, to int32
}

type kind uint8

const (
	tEOF  kind = iota
	tBad       // no token; reported already
	tWord      // name or keyword, may contain backticks
	tInt
	tChar
	tString
	tAgg   // @name
	tMacro // $name, $$name
	tLParen
	tRParen
	tLBrack
	tRBrack
	tLBrace
	tRBrace
	tSemi
	tColon
	tQuest
	tDot
	tEllipsis
	tArrow
	tInc
	tDec
	tNot
	tTilde
	tAssign // one of the assignments; the others have kinds of their own below

	tComma
	tOrOr
	tXorXor
	tAndAnd
	tOr
	tXor
	tAnd
	tEq
	tNe
	tLt
	tLe
	tGt
	tGe
	tShl
	tShr
	tPlus
	tMinus
	tStar
	tSlash
	tPercent

	tSetOr // |=
	tSetXor
	tSetAnd
	tSetShl
	tSetShr
	tSetAdd
	tSetSub
	tSetMul
	tSetDiv
	tSetMod
)

// binaryOp returns the operator of a token between operands, Set when it is none. The kinds are in
// the order of the Ops.
func binaryOp(k kind) Op {
	if k >= tComma && k <= tPercent {
		return Comma + Op(k-tComma)
	}
	return Set
}

// assignOp reports whether a token is an assignment, and returns its operator.
func assignOp(k kind) (Op, bool) {
	switch k {
	case tAssign:
		return Set, true
	case tSetOr:
		return Or, true
	case tSetXor:
		return Xor, true
	case tSetAnd:
		return And, true
	case tSetShl:
		return Shl, true
	case tSetShr:
		return Shr, true
	case tSetAdd:
		return Add, true
	case tSetSub:
		return Sub, true
	case tSetMul:
		return Mul, true
	case tSetDiv:
		return Div, true
	case tSetMod:
		return Mod, true
	}
	return Set, false
}
