// Package syntax turns the text of a D program into nodes, and nodes into text. It knows the grammar and nothing else: no
// types of the kernel, no probes, no names of functions or variables. What a name means is for lang/check to say.
//
// Parse gives a tree or diagnostics, never both, and takes any text: depth, length and number of diagnostics are bounded.
// Every node is documented by its grammar, in which [ ] is optional, { } is any number of times, | is or, and quotes hold
// text that stands as it is. A node is a pointer to one of the structs of this package; a switch over its type is the way
// to look at it, and Walk the way to look at all.
package syntax

// A Span is where something stands in the text: bytes From up to To. A node that somebody made, and that stands in no
// text, has the zero Span. The span of an expression in parentheses includes them; there is no node for them.
type Span struct{ From, To int32 }

// At gives the span itself, so that every node with a Span in it tells where it stands.
func (s Span) At() Span { return s }

// Displace makes the node one that stands in no text.
func (s *Span) Displace() { *s = Span{} }

// Displaced parses a text whose places nobody is to be told: all of its nodes stand in no text.
func Displaced(text string, m Mode) (*Program, Diagnostics) {
	p, ds := Parse(text, m)
	if ds == nil {
		Walk(p, func(n Node) bool {
			if n, ok := n.(interface{ Displace() }); ok {
				n.Displace()
			}
			return true
		})
	}
	return p, ds
}

// A Node is any of the structs of this package that has a Span: *Program, an Item, *Probe, *Var, *Param, *Field,
// *EnumValue, *TranslatorMember, *Block, a Stmt, an Expr or a Type.
type Node interface {
	At() Span // where the node stands in the text
}

// A Name is a word and where it stands. Text is "" where the grammar lets it be left out.
type Name struct {
	Span
	Text string
}

// A Program is a whole text.
//
//	Program = { Item } .
type Program struct {
	Span
	Items []Item // in the order of the text; a pragma within a clause stands before the clause
}

// An Item is what stands outside of braces: *Clause, *Pragma, *Declaration, *Inline or *Translator.
type Item interface {
	Node
	item()
}

// A Clause says what happens where.
//
//	Clause = Probe { "," Probe } [ "/" Expr "/" ] [ Block ] .
//
// A clause without a block traces the probe; one with an empty block does nothing at all. A clause without a block is the
// last of the text or has a ";" behind it. The slash that ends a predicate stands outside of parentheses, and "{", ";" or
// the end of the text follows.
type Clause struct {
	Span
	Probes    []*Probe // at least one
	Predicate Expr     // nil: always
	Body      *Block   // nil: trace the probe
}

// A Probe is a probe description.
//
//	Probe = [ [ [ provider ":" ] module ":" ] function ":" ] name | digits .
//
// What is left out to the left is "", and so is an empty part: both match anything. Parts are globs of *, ?, [a-z], [!a-z]
// and \ before a character that means itself. They may hold macros, $target or $1. Mode.Last moves what a description with
// fewer than four parts ends with.
type Probe struct {
	Span
	Provider, Module, Function, Name Name

	Parts int    // how many parts were written, 1 to 4; 0: the probe is named by ID
	ID    uint32 // the number of a probe, where Parts is 0
}

// A Pragma is a line for the compiler.
//
//	Pragma = "#pragma" "D" "option" name [ "=" value ]
//	       | "#pragma" "D" ( "attributes" | "binding" | "depends_on" ) { word } .
//
// Other pragmas of C, #ident and #line leave nothing in the tree.
type Pragma struct {
	Span
	Kind  Name   // option, attributes, binding or depends_on
	Name  Name   // of an option
	Value Name   // of an option; its Text is without quotes
	Set   bool   // an option has "="
	Words []Name // of the others
}

// A Declaration declares variables, types, or both.
//
//	Declaration = [ Storage ] Base [ Var { "," Var } ] ";" .
//
// With a storage the base may be left out, and is int: self x; is self int x;.
//
// `struct s { int x; } a, *b;` has the base struct s and two variables, whose types lead to that same base.
type Declaration struct {
	Span
	Storage Storage
	Base    Type
	Vars    []*Var // may be empty when Base is a struct, union or enum
}

// Storage says where a declared thing lives. Only one may be given.
type Storage uint8

// The storages. In D none and static both make a global variable.
const (
	StoreNone    Storage = iota
	StoreStatic          // static
	StoreExtern          // extern: declared, and defined elsewhere
	StoreTypedef         // typedef: a name for a type
	StoreSelf            // self: one for each thread
	StoreThis            // this: one for the run of a probe's clauses
)

// A Var is one declared name with its whole type. In the text the name stands within the type, as in C: char *x[3].
type Var struct {
	Span
	Name Name
	Type Type
}

// An Inline gives an expression a name.
//
//	Inline = "inline" Base Var "=" Expr ";" .
//
// Where the type of the variable is an *Assoc its keys may have names, which stand for the arguments in the expression:
// inline int twice[int n] = 2 * n;
type Inline struct {
	Span
	Var   *Var
	Value Expr
}

// A Translator says how to make one type out of another.
//
//	Translator = "translator" Type "<" Type name ">" "{" { TranslatorMember } "}" ";" .
type Translator struct {
	Span
	Output  Type
	Input   Type
	Name    Name // the input, within Members
	Members []*TranslatorMember
}

// A TranslatorMember gives one member of the output.
//
//	TranslatorMember = name "=" Expr ";" .
type TranslatorMember struct {
	Span
	Name  Name
	Value Expr
}

// A Block is a list of statements in braces. Empty statements leave nothing in it, and the last ";" may be left out. The
// block of an if may be one statement without braces.
//
//	Block = "{" [ Stmt { ";" Stmt } ] "}" .
type Block struct {
	Span
	List []Stmt
}

// A Stmt is a statement: *Do or *If.
type Stmt interface {
	Node
	stmt()
}

// A Do is an expression that stands for what it does: an action, an assignment, an aggregation.
//
//	Do = Expr .
type Do struct {
	Span
	X Expr
}

// An If runs one block or the other.
//
//	If = "if" "(" Expr ")" Block [ "else" ( Block | If ) ] .
//
// An else-if is an Else with one *If in it.
type If struct {
	Span
	Cond Expr
	Then *Block
	Else *Block // nil: none
}

// An Expr is an expression: *Ident, *Macro, *Int, *Char, *String, *Aggregation, *Index, *Member, *Call, *Unary, *Step,
// *Binary, *Assign, *Cond, *Cast, *SizeOf, *StringOf, *OffsetOf or *Xlate.
type Expr interface {
	Node
	expr()
}

// An Ident names a variable, a function without arguments' parentheses, an enumerator or an inline.
//
//	Ident = name | "self" "->" name | "this" "->" name | [ module ] "`" name .
type Ident struct {
	Span
	Scope  Scope
	Module string // of a kernel variable; "": any
	Name   string
}

// Scope says among which names an identifier is looked for.
type Scope uint8

// The scopes of identifiers.
const (
	ScopeGlobal Scope = iota // name
	ScopeSelf                // self->name: the thread's
	ScopeThis                // this->name: the clause's
	ScopeKernel              // `name, module`name: a variable of the kernel
)

// A Macro stands for a word that is given when the program is run. With Mode.Macros there are none in the tree.
//
//	Macro = "$" name | "$$" name .
type Macro struct {
	Span
	Name   string // "target", "1"
	Quoted bool   // $$: as a string
}

// An Int is a whole number.
//
//	Int = ( decimal | "0" octal | "0x" hexadecimal ) [ suffix ] .
type Int struct {
	Span
	Value    uint64
	Unsigned bool   // has a suffix with u
	Long     uint8  // how many l its suffix has: 0, 1 or 2
	Text     string // as written; "": by Value and the suffix
}

// A Char is a number written as one to eight characters, of which the last is the least significant byte.
//
//	Char = "'" character { character } "'" .
type Char struct {
	Span
	Value int64  // of one character: -128 to 127, as a signed char of C
	Text  string // the bytes, escapes resolved
}

// A String is a string literal.
//
//	String = `"` { character } `"` .
type String struct {
	Span
	Value string // the bytes, escapes resolved
}

// An Aggregation is an aggregation or, with keys, the place in one.
//
//	Aggregation = "@" [ name ] [ "[" Expr { "," Expr } "]" ] .
type Aggregation struct {
	Span
	Name string // "" for the one without a name
	Keys []Expr // nil: none
}

// An Index is an element of an array, of an associative array, or beyond a pointer.
//
//	Index = Expr "[" Expr { "," Expr } "]" .
type Index struct {
	Span
	X    Expr
	Keys []Expr // at least one
}

// A Member is a member of a struct or union.
//
//	Member = Expr ( "." | "->" ) name .
type Member struct {
	Span
	X     Expr
	Name  Name // with $1 in place of a name: "$1"
	Arrow bool // ->
}

// A Call is a call of an action, a subroutine or an aggregating function.
//
//	Call = name "(" [ Expr { "," Expr } ] ")" .
type Call struct {
	Span
	Func Name
	Args []Expr
}

// A Unary is an operator before its operand: Plus, Neg, Not, BitNot, Deref or Addr.
//
//	Unary = ( "+" | "-" | "!" | "~" | "*" | "&" ) Expr .
type Unary struct {
	Span
	Op Op
	X  Expr
}

// A Step adds or takes one: Op is Add or Sub.
//
//	Step = ( "++" | "--" ) Expr | Expr ( "++" | "--" ) .
type Step struct {
	Span
	Op   Op
	X    Expr // an Ident, Index, Member, or a Unary of Deref
	Post bool // behind its operand: its value is the old one
}

// A Binary is an operator between two operands. See Op for the operators and how they bind.
//
//	Binary = Expr operator Expr .
type Binary struct {
	Span
	Op   Op
	X, Y Expr
}

// An Assign gives X a new value. Op is Set for "=", and else the operator before the "=": Add for "+=".
//
//	Assign = Expr ( "=" | "*=" | "/=" | "%=" | "+=" | "-=" | "<<=" | ">>=" | "&=" | "^=" | "|=" ) Expr .
type Assign struct {
	Span
	Op Op
	X  Expr // an Ident, Aggregation, Index, Member, or a Unary of Deref
	Y  Expr
}

// A Cond is Then where If is not zero, and else Else.
//
//	Cond = Expr "?" Expr ":" Expr .
type Cond struct {
	Span
	If, Then, Else Expr
}

// A Cast gives an expression another type.
//
//	Cast = "(" Type ")" Expr .
//
// What stands in parentheses before an operand may be a type or an expression, and this package does not know the kernel's
// types. It takes `(name) x` and `(name *) x` for casts whatever the name, and `(name) - x`, where - is one of + - * & ++
// -- and could be a binary operator, where the name is a typedef of the text, ends in _t, is a common type of Linux or C,
// or Mode.Types knows it.
type Cast struct {
	Span
	Type Type
	X    Expr
}

// A SizeOf is the size in bytes of a type or of an expression's type: one of Type and X is nil. X may be an *Ident that is
// the name of a type: sizeof (name) is a type only by the rules of Cast.
//
//	SizeOf = "sizeof" Expr | "sizeof" "(" Type ")" .
type SizeOf struct {
	Span
	Type Type
	X    Expr
}

// A StringOf is an expression made a string.
//
//	StringOf = "stringof" Expr .
type StringOf struct {
	Span
	X Expr
}

// An OffsetOf is where a member stands in a struct, in bytes.
//
//	OffsetOf = "offsetof" "(" Type "," name { "." name } ")" .
type OffsetOf struct {
	Span
	Type Type
	Path []Name // at least one
}

// An Xlate is an expression made another type by a translator.
//
//	Xlate = "xlate" "<" Type ">" "(" Expr ")" .
type Xlate struct {
	Span
	Type Type
	X    Expr
}

// A Type is a type as it is written: *Basic, *Named, *Struct, *Enum, *Pointer, *Array, *Assoc or *Func.
type Type interface {
	Node
	typ()
}

// Qual is a set of qualifiers.
type Qual uint8

// The qualifiers. None of them changes what a D program does.
const (
	Const    Qual = 1 << iota // const
	Volatile                  // volatile
	Restrict                  // restrict
)

// A Basic is a type that C or D has by itself.
//
//	Basic = word { word } .
type Basic struct {
	Span
	Qual Qual
	Kind BasicKind
}

// BasicKind tells the basic types apart.
type BasicKind uint8

// The basic types. A plain char is signed, whether or not the machine's is.
const (
	KindVoid BasicKind = iota
	KindBool
	KindChar
	KindSChar
	KindUChar
	KindShort
	KindUShort
	KindInt
	KindUInt
	KindLong
	KindULong
	KindLongLong
	KindULongLong
	KindFloat
	KindDouble
	KindLongDouble
	KindString // string, which D has by itself
)

// A Named is a type by the name that a typedef gave it.
//
//	Named = [ module "`" ] name .
type Named struct {
	Span
	Qual   Qual
	Module string
	Name   string
}

// A Struct is a struct or union, defined or only named.
//
//	Struct = ( "struct" | "union" ) ( [ module "`" ] tag | [ tag ] "{" Field { Field } "}" ) .
type Struct struct {
	Span
	Qual   Qual
	Union  bool
	Module string
	Tag    Name
	Fields []*StructMember // nil: only named
}

// A StructMember is a member of a struct.
//
//	StructMember = Base Var [ ":" Expr ] { "," Var [ ":" Expr ] } ";" .
//
// Each Var is a field of its own here; the types of those of one line lead to the same base. A struct or union without
// a Var is an anonymous member, whose members count as the outer's: its Name is "". So is the name of a bit field that
// only fills space.
type StructMember struct {
	Span
	Name Name
	Type Type
	Bits Expr // nil: no bit field
	Base Type // what the types of one line share
}

// An Enum is an enumeration, defined or only named.
//
//	Enum = "enum" ( [ module "`" ] tag | [ tag ] "{" EnumValue { "," EnumValue } [ "," ] "}" ) .
type Enum struct {
	Span
	Qual   Qual
	Module string
	Tag    Name
	Values []*EnumValue // nil: only named
}

// An EnumValue is a name for a number.
//
//	EnumValue = name [ "=" Expr ] .
type EnumValue struct {
	Span
	Name  Name
	Value Expr // nil: one more than the one before it, or 0
}

// A Pointer leads to a value of another type.
//
//	Pointer = Type "*" { qualifier } .
type Pointer struct {
	Span
	Qual Qual
	Elem Type
}

// An Array is a row of values.
//
//	Array = Type "[" [ Expr ] "]" .
type Array struct {
	Span
	Elem Type
	Len  Expr // nil: not told
}

// An Assoc is an associative array.
//
//	Assoc = Type "[" Param { "," Param } "]" .
type Assoc struct {
	Span
	Elem Type
	Keys []*Param // at least one
}

// A Func is a function, as types of C have them.
//
//	Func = Type "(" [ Param { "," Param } [ "," "..." ] ] ")" .
type Func struct {
	Span
	Result Type
	Params []*Param
	More   bool // ...
}

// A Param is a parameter of a function or a key of an associative array.
//
//	Param = Base [ Var ] .
type Param struct {
	Span
	Type Type
	Name Name
}

func (*Clause) item()      {}
func (*Pragma) item()      {}
func (*Declaration) item() {}
func (*Inline) item()      {}
func (*Translator) item()  {}

func (*Do) stmt() {}
func (*If) stmt() {}

func (*Ident) expr()       {}
func (*Macro) expr()       {}
func (*Int) expr()         {}
func (*Char) expr()        {}
func (*String) expr()      {}
func (*Aggregation) expr() {}
func (*Index) expr()       {}
func (*Member) expr()      {}
func (*Call) expr()        {}
func (*Unary) expr()       {}
func (*Step) expr()        {}
func (*Binary) expr()      {}
func (*Assign) expr()      {}
func (*Cond) expr()        {}
func (*Cast) expr()        {}
func (*SizeOf) expr()      {}
func (*StringOf) expr()    {}
func (*OffsetOf) expr()    {}
func (*Xlate) expr()       {}

func (*Basic) typ()   {}
func (*Named) typ()   {}
func (*Struct) typ()  {}
func (*Enum) typ()    {}
func (*Pointer) typ() {}
func (*Array) typ()   {}
func (*Assoc) typ()   {}
func (*Func) typ()    {}
