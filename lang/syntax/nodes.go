// Package syntax parses the text of a D program into nodes, and prints nodes as text. It implements
// the grammar only: no kernel types, no probes, no names of functions or variables. lang/check
// decides what a name means.
//
// Parse returns a tree or diagnostics, never both, and accepts any text: depth, length and number
// of diagnostics are bounded. Each node is documented by its grammar, in which [ ] is optional, { }
// is any number of times, | is or, and quotes contain literal text. A node is a pointer to one of
// the structs of this package. Inspect it with a switch over its type; inspect all nodes with Walk.
package syntax

// A Span is the position of a node in the text: bytes From up to To. A node that does not come from
// a text has the zero Span. The span of an expression in parentheses includes them; there is no
// node for them.
type Span struct{ From, To int32 }

// At returns the span itself, so that every node with a Span has a position.
func (s Span) At() Span { return s }

// Displace removes the node's position.
func (s *Span) Displace() { *s = Span{} }

// Move sets the node's position.
func (s *Span) Move(to Span) { *s = to }

// Displaced parses a text and removes the positions of all its nodes. It returns diagnostics when
// the text is wrong.
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

// A Node is a pointer to any struct of this package that has a Span: *Program, an Item, *Probe,
// *Var, *Param, *StructMember, *EnumValue, *TranslatorMember, *Block, a Stmt, an Expr or a Type.
type Node interface {
	At() Span // the node's position in the text
}

// A Name is a word with its position. Text is "" where the grammar allows omitting it.
type Name struct {
	Span
	Text string
}

// A Program is a whole text.
//
//	Program = { Item } .
type Program struct {
	Span
	Items []Item // in the order of the text; a pragma within a clause precedes the clause
}

// An Item is a construct outside of braces: *Clause, *Pragma, *Declaration, *Inline or *Translator.
type Item interface {
	Node
	item()
}

// A Clause connects probes with statements.
//
//	Clause = Probe { "," Probe } [ "/" Expr "/" ] [ Block ] .
//
// A clause without a block traces the probe; one with an empty block does nothing. A clause without
// a block is the last one of the text or is followed by ";". The slash that ends a predicate is
// outside of parentheses and is followed by "{", ";" or the end of the text.
type Clause struct {
	Span
	Probes    []*Probe // at least one
	Predicate Expr     // nil: always
	Body      *Block   // nil: trace the probe
	// Of a clause that another front end has divided: user space runs Body for each element of the
	// loop with this number, from 1; 0: once.
	Loop      int
	Continues bool // it is a part of the same clause as the one before
}

// A Probe is a probe description.
//
//	Probe = [ [ [ provider ":" ] module ":" ] function ":" ] name | digits .
//
// Parts that are omitted at the left are "", as are empty parts: both match everything. Parts are
// patterns of *, ?, [a-z], [!a-z] and \ before a literal character. They may contain macros,
// $target or $1. Mode.Last sets the last part of a description that has fewer than four.
type Probe struct {
	Span
	Provider, Module, Function, Name Name

	Parts int    // the number of parts as written, 1 to 4; 0: the probe is named by ID
	ID    uint32 // the probe's number when Parts is 0
}

// A Pragma is a line for the compiler.
//
//	Pragma = "#pragma" "D" "option" name [ "=" value ]
//	       | "#pragma" "D" ( "attributes" | "binding" | "depends_on" ) { word } .
//
// Other pragmas of C, #ident and #line are not in the tree.
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
// With a storage the base may be omitted, and is int: self x; is self int x;.
//
// `struct s { int x; } a, *b;` has the base struct s and two variables, whose types refer to that
// base.
type Declaration struct {
	Span
	Storage Storage
	Base    Type
	Vars    []*Var // may be empty when Base is a struct, union or enum
}

// Storage is where a declared variable lives. Only one may be given.
type Storage uint8

// The storages. In D, none and static both declare a global variable.
const (
	StoreNone    Storage = iota
	StoreStatic          // static
	StoreExtern          // extern: defined elsewhere
	StoreTypedef         // typedef: a name for a type
	StoreSelf            // self: one per thread
	StoreThis            // this: one per firing of a probe
)

// A Var is one declared name with its whole type. In the text the name stands within the type, as
// in C: char *x[3].
type Var struct {
	Span
	Name Name
	Type Type
}

// An Inline names an expression.
//
//	Inline = "inline" Base Var "=" Expr ";" .
//
// When the type of the variable is an *Assoc, its keys may have names, which represent the
// arguments in the expression: inline int twice[int n] = 2 * n;
type Inline struct {
	Span
	Var   *Var
	Value Expr
}

// A Translator converts one type to another.
//
//	Translator = "translator" Type "<" Type name ">" "{" { TranslatorMember } "}" ";" .
type Translator struct {
	Span
	Output  Type
	Input   Type
	Name    Name // the input's name within Members
	Members []*TranslatorMember
}

// A TranslatorMember defines one member of the output.
//
//	TranslatorMember = name "=" Expr ";" .
type TranslatorMember struct {
	Span
	Name  Name
	Value Expr
}

// A Block is a list of statements in braces. Empty statements are not in the list, and the last ";"
// may be omitted. The block of an if may be one statement without braces.
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

// A Do is an expression used as a statement: an action, an assignment, an aggregation.
//
//	Do = Expr .
type Do struct {
	Span
	X Expr
}

// An If runs one of two blocks.
//
//	If = "if" "(" Expr ")" Block [ "else" ( Block | If ) ] .
//
// For else-if, Else contains only an *If.
type If struct {
	Span
	Cond Expr
	Then *Block
	Else *Block // nil: none
}

// An Expr is an expression: *Ident, *Macro, *Int, *Char, *String, *Aggregation, *Index, *Member,
// *Call, *Unary, *Step, *Binary, *Assign, *Cond, *Cast, *SizeOf, *StringOf, *OffsetOf or *Xlate.
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

// Scope selects the names among which an identifier is looked up.
type Scope uint8

// The scopes of identifiers.
const (
	ScopeGlobal Scope = iota // name
	ScopeSelf                // self->name: thread-local
	ScopeThis                // this->name: clause-local
	ScopeKernel              // `name, module`name: a kernel variable
)

// A Macro is a macro variable; its value is known when the program starts. With Mode.Macros the
// tree contains none.
//
//	Macro = "$" name | "$$" name .
type Macro struct {
	Span
	Name   string // "target", "1"
	Quoted bool   // $$: as a string
}

// An Int is an integer.
//
//	Int = ( decimal | "0" octal | "0x" hexadecimal ) [ suffix ] .
type Int struct {
	Span
	Value    uint64
	Unsigned bool   // has a suffix with u
	Long     uint8  // the number of l in its suffix: 0, 1 or 2
	Text     string // as written; "": derived from Value and the suffix
}

// A Char is a number written as one to eight characters. The last one is the least significant
// byte.
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

// An Aggregation is an aggregation or, with keys, one of its elements.
//
//	Aggregation = "@" [ name ] [ "[" Expr { "," Expr } "]" ] .
type Aggregation struct {
	Span
	Name string // "" for the aggregation without a name
	Keys []Expr // nil: none
}

// An Index is an element of an array, of an associative array, or behind a pointer.
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
	Name  Name // "$1" when a macro replaces the name
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

// A Step adds or subtracts one: Op is Add or Sub.
//
//	Step = ( "++" | "--" ) Expr | Expr ( "++" | "--" ) .
type Step struct {
	Span
	Op   Op
	X    Expr // an Ident, Index, Member, or a Unary of Deref
	Post bool // after its operand: the value is the old one
}

// A Binary is an operator between two operands. See Op for the operators and their precedence.
//
//	Binary = Expr operator Expr .
type Binary struct {
	Span
	Op   Op
	X, Y Expr
}

// An Assign sets X to a new value. Op is Set for "=", otherwise the operator before the "=": Add
// for "+=".
//
//	Assign = Expr ( "=" | "*=" | "/=" | "%=" | "+=" | "-=" | "<<=" | ">>=" | "&=" | "^=" | "|=" )
//	         Expr .
type Assign struct {
	Span
	Op Op
	X  Expr // an Ident, Aggregation, Index, Member, or a Unary of Deref
	Y  Expr
}

// A Cond is Then when If is not zero, otherwise Else.
//
//	Cond = Expr "?" Expr ":" Expr .
type Cond struct {
	Span
	If, Then, Else Expr
}

// A Cast converts an expression to another type.
//
//	Cast = "(" Type ")" Expr .
//
// Parentheses before an operand may contain a type or an expression, and this package does not know
// the kernel's types. `(name) x` and `(name *) x` are casts for every name. `(name) - x`, where -
// is one of + - * & ++ -- and could be a binary operator, is a cast in these cases: the name is a
// typedef of the text, ends in _t, is a common type of Linux or C, or is known to Mode.Types.
type Cast struct {
	Span
	Type Type
	X    Expr
}

// A SizeOf is the size in bytes of a type or of an expression's type: one of Type and X is nil. X
// may be an *Ident that names a type: sizeof (name) is a type only by the rules of Cast.
//
//	SizeOf = "sizeof" Expr | "sizeof" "(" Type ")" .
type SizeOf struct {
	Span
	Type Type
	X    Expr
}

// A StringOf converts an expression to a string.
//
//	StringOf = "stringof" Expr .
type StringOf struct {
	Span
	X Expr
}

// An OffsetOf is the offset in bytes of a member in a struct.
//
//	OffsetOf = "offsetof" "(" Type "," name { "." name } ")" .
type OffsetOf struct {
	Span
	Type Type
	Path []Name // at least one
}

// An Xlate converts an expression to another type by a translator.
//
//	Xlate = "xlate" "<" Type ">" "(" Expr ")" .
type Xlate struct {
	Span
	Type Type
	X    Expr
}

// A Type is a type as it is written: *Basic, *Named, *Struct, *Enum, *Pointer, *Array, *Assoc or
// *Func.
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

// A Basic is a built-in type of C or D.
//
//	Basic = word { word } .
type Basic struct {
	Span
	Qual Qual
	Kind BasicKind
}

// BasicKind is which basic type a Basic is.
type BasicKind uint8

// The basic types. A plain char is signed on every machine.
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
	KindString // string, a type of D
)

// A Named is a type named by a typedef.
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
//	Struct = ( "struct" | "union" )
//	         ( [ module "`" ] tag | [ tag ] "{" StructMember { StructMember } "}" ) .
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
// Each Var is a member of its own here; the types of one line share a base. A struct or union
// without a Var is an anonymous member, whose members belong to the outer struct: its Name is "".
// The Name of a bit field that is only padding is "", too.
type StructMember struct {
	Span
	Name Name
	Type Type
	Bits Expr // nil: no bit field
	Base Type // the base shared by the types of one line
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
	Value Expr // nil: the value before it plus one, or 0
}

// A Pointer points to a value of another type.
//
//	Pointer = Type "*" { qualifier } .
type Pointer struct {
	Span
	Qual Qual
	Elem Type
}

// An Array is a sequence of values.
//
//	Array = Type "[" [ Expr ] "]" .
type Array struct {
	Span
	Elem Type
	Len  Expr // nil: not given
}

// An Assoc is an associative array.
//
//	Assoc = Type "[" Param { "," Param } "]" .
type Assoc struct {
	Span
	Elem Type
	Keys []*Param // at least one
}

// A Func is a function type of C.
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
