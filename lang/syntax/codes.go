package syntax

// The codes of mistakes in the text itself. The Example of each produces that one diagnostic and no
// other. In an example \n is a line's end.
const (
	// BadCharacter is a character that begins no token.
	//
	// Example: BEGIN { x = 1 # 2; }
	BadCharacter Code = "bad-character"

	// UnclosedComment is a comment of C without its end. Comments don't nest.
	//
	// Example: BEGIN { exit(0); } /* the end
	UnclosedComment Code = "unclosed-comment"

	// UnclosedString is a string without its closing quote on the same line.
	//
	// Example: BEGIN { trace("hello); }
	UnclosedString Code = "unclosed-string"

	// UnclosedChar is a character constant without its closing quote on the same line.
	//
	// Example: BEGIN { trace('a); }
	UnclosedChar Code = "unclosed-char"

	// EmptyChar is a character constant of no characters.
	//
	// Example: BEGIN { trace(''); }
	EmptyChar Code = "empty-char"

	// LongChar is a character constant of more than eight bytes, the size of a number.
	//
	// Example: BEGIN { trace('too many here'); }
	LongChar Code = "long-char"

	// BadEscape is \x without digits, or an escape for more than a byte can hold.
	//
	// Example: BEGIN { trace("\xyz"); }
	BadEscape Code = "bad-escape"

	// BigInt is a number of more than 64 bits.
	//
	// Example: BEGIN { trace(0x10000000000000000); }
	BigInt Code = "big-int"

	// BadDigit is a digit that the base of a number does not have, or a number without digits.
	//
	// Example: BEGIN { trace(0189); }
	BadDigit Code = "bad-digit"

	// BadSuffix is a number followed directly by a word.
	//
	// Example: BEGIN { trace(10ms); }
	BadSuffix Code = "bad-suffix"

	// FloatConstant is a number with a fraction or an exponent: BPF has no floating point.
	//
	// Example: BEGIN { trace(1.5); }
	FloatConstant Code = "float-constant"

	// BadMacro is a $ without a name.
	//
	// Example: BEGIN { trace($); }
	BadMacro Code = "bad-macro"

	// UnknownMacro is a macro without a value. Only with Mode.Macros.
	//
	// Example: BEGIN { trace($1); }
	UnknownMacro Code = "unknown-macro"

	// BadAggregation is an @ followed by a digit.
	//
	// Example: BEGIN { @1 = count(); }
	BadAggregation Code = "bad-aggregation"

	// BadKernelName is a backtick without a name behind it.
	//
	// Example: BEGIN { trace(`1); }
	BadKernelName Code = "bad-kernel-name"

	// LongText is a text of more than MaxText bytes.
	//
	// Example: too long to be shown here
	LongText Code = "long-text"

	// TooDeep is an expression, a type or a statement nested more than the compiler follows.
	//
	// Example: BEGIN { x =
	// ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1)));
	// }
	TooDeep Code = "too-deep"

	// TooMany ends the list when there are too many diagnostics. It comes after the others.
	//
	// Example: BEGIN { #; #; #; #; #; #; #; #; #; #; #; #; #; #; #; #; #; #; #; #; #; #; #; #; #;
	// #; #; #; }
	TooMany Code = "too-many"

	// EmptyProgram is a text without a clause or a declaration.
	//
	// Example: /* nothing yet */
	EmptyProgram Code = "empty-program"

	// NeedsPreprocessor is a line for the C preprocessor, which has not run.
	//
	// Example: #include <sys/types.h>\nBEGIN { exit(0); }
	NeedsPreprocessor Code = "needs-preprocessor"

	// BadDirective is a line that begins with # and a word that is not a directive.
	//
	// Example: #pragme D option quiet\nBEGIN { exit(0); }
	BadDirective Code = "bad-directive"

	// ErrorDirective is #error: the text itself reports an error.
	//
	// Example: #error not for this machine\nBEGIN { exit(0); }
	ErrorDirective Code = "error-directive"

	// UnknownPragma is an unknown #pragma D.
	//
	// Example: #pragma D optoin quiet\nBEGIN { exit(0); }
	UnknownPragma Code = "unknown-pragma"

	// MalformedPragma is a #pragma with too few or too many words.
	//
	// Example: #pragma D option\nBEGIN { exit(0); }
	MalformedPragma Code = "malformed-pragma"

	// MissingProbe is a predicate, a block or a comma without its probe description.
	//
	// Example: { exit(0); }
	MissingProbe Code = "missing-probe"

	// ProbeParts is a probe description of more than four parts.
	//
	// Example: syscall:vmlinux:read:entry:0 { exit(0); }
	ProbeParts Code = "probe-parts"

	// ProbeGlob is a [ in a probe description without its ], or a \ before nothing.
	//
	// Example: syscall::[op:entry { exit(0); }
	ProbeGlob Code = "probe-glob"

	// ProbeNumber is a number of a probe that is too large.
	//
	// Example: 99999999999 { exit(0); }
	ProbeNumber Code = "probe-number"

	// ProbeSpaces is a description with spaces in it, or two without a comma between them.
	//
	// Example: syscall::read: entry { exit(0); }
	ProbeSpaces Code = "probe-spaces"

	// ExpectedItem is text outside of braces that begins neither a clause nor a declaration.
	//
	// Example: BEGIN { exit(0); } = x;
	ExpectedItem Code = "expected-item"

	// EmptyPredicate is a predicate without an expression.
	//
	// Example: BEGIN / / { exit(0); }
	EmptyPredicate Code = "empty-predicate"

	// UnclosedPredicate is a predicate whose second slash is missing.
	//
	// Example: BEGIN /pid == 1 { exit(0); }
	UnclosedPredicate Code = "unclosed-predicate"

	// UnclosedBrace is a { without its }.
	//
	// Example: BEGIN { exit(0);
	UnclosedBrace Code = "unclosed-brace"

	// UnclosedParen is a ( without its ).
	//
	// Example: BEGIN { exit(0; }
	UnclosedParen Code = "unclosed-paren"

	// UnclosedBracket is a [ without its ].
	//
	// Example: BEGIN { @[pid = count(); }
	UnclosedBracket Code = "unclosed-bracket"

	// UnmatchedClose is a ), ] or } that closes nothing.
	//
	// Example: BEGIN { exit(0)); }
	UnmatchedClose Code = "unmatched-close"

	// ExpectedExpr is a missing value.
	//
	// Example: BEGIN { x = ; }
	ExpectedExpr Code = "expected-expression"

	// ExpectedOperator is two values with nothing between them.
	//
	// Example: BEGIN { x = 1 2; }
	ExpectedOperator Code = "expected-operator"

	// ExpectedSemicolon is a line's end between two statements without a semicolon.
	//
	// Example: BEGIN { x = 1\n exit(0); }
	ExpectedSemicolon Code = "expected-semicolon"

	// ExpectedColon is a ? whose : is missing.
	//
	// Example: BEGIN { x = y ? 1; }
	ExpectedColon Code = "expected-colon"

	// ExpectedMember is a . or -> without the name of a member.
	//
	// Example: BEGIN { trace(curthread->); }
	ExpectedMember Code = "expected-member"

	// EmptyKeys is empty brackets.
	//
	// Example: BEGIN { @[] = count(); }
	EmptyKeys Code = "empty-keys"

	// NotAssignable is a value that can't be assigned to.
	//
	// Example: BEGIN { 1 = x; }
	NotAssignable Code = "not-assignable"

	// AggregationOp is an aggregation changed by anything but =.
	//
	// Example: BEGIN { @n++; }
	AggregationOp Code = "aggregation-operator"

	// NotCallable is a ( after something other than a function's name.
	//
	// Example: BEGIN { x[1](2); }
	NotCallable Code = "not-callable"

	// BareScope is self or this without -> and a name.
	//
	// Example: BEGIN { self = 1; }
	BareScope Code = "bare-scope"

	// ReservedWord is a reserved word of C in place of a name.
	//
	// Example: BEGIN { x = register; }
	ReservedWord Code = "reserved-word"

	// NoSuchStatement is a loop or a jump of C. D has none: a clause always ends.
	//
	// Example: BEGIN { while (x) { x--; } }
	NoSuchStatement Code = "no-such-statement"

	// ExpectedStatement is text in a block that begins no statement.
	//
	// Example: BEGIN { { exit(0); } }
	ExpectedStatement Code = "expected-statement"

	// BareElse is an else without its if.
	//
	// Example: BEGIN { else { exit(0); } }
	BareElse Code = "bare-else"

	// IfParen is an if whose condition is not in parentheses.
	//
	// Example: BEGIN { if x { exit(0); } }
	IfParen Code = "if-parenthesis"

	// ProbeInBlock is a clause within a clause, most often because a brace is missing before it.
	//
	// Example: BEGIN { syscall::read:entry { exit(0); } }
	ProbeInBlock Code = "probe-in-block"

	// DeclarationInBlock is a declaration within a clause. Declarations precede the clauses.
	//
	// Example: BEGIN { int x; }
	DeclarationInBlock Code = "declaration-in-block"

	// ExpectedType is a missing type.
	//
	// Example: BEGIN { trace(sizeof ()); }
	ExpectedType Code = "expected-type"

	// BadTypeWords is a combination of words that is no type.
	//
	// Example: unsigned string s;
	BadTypeWords Code = "bad-type-words"

	// TwoStorages is a declaration with more than one storage.
	//
	// Example: self static int x;
	TwoStorages Code = "two-storages"

	// StoragePlace is a storage within a type, where none is allowed.
	//
	// Example: inline self int x = 1;
	StoragePlace Code = "storage-place"

	// ExpectedName is a declaration without the name of what it declares.
	//
	// Example: int *;
	ExpectedName Code = "expected-name"

	// ExpectedTag is struct, union or enum without a tag and without members.
	//
	// Example: struct *p;
	ExpectedTag Code = "expected-tag"

	// EmptyStruct is a struct, union or enum with empty braces.
	//
	// Example: struct s { };
	EmptyStruct Code = "empty-struct"

	// UnendedDeclaration is a declaration without its semicolon.
	//
	// Example: int x\nBEGIN { exit(0); }
	UnendedDeclaration Code = "unended-declaration"

	// Initializer is a declared variable with a value.
	//
	// Example: int x = 1;
	Initializer Code = "initializer"

	// InlineValue is an inline without its value.
	//
	// Example: inline int x;
	InlineValue Code = "inline-value"

	// BadTranslator is a malformed translator.
	//
	// Example: translator struct a *p { x = 1; };
	BadTranslator Code = "bad-translator"

	// BadXlate is xlate that is not of the form xlate <type> (value).
	//
	// Example: BEGIN { trace(xlate (x)); }
	BadXlate Code = "bad-xlate"

	// BadOffsetOf is offsetof that is not of the form offsetof(type, member).
	//
	// Example: BEGIN { trace(offsetof(struct s)); }
	BadOffsetOf Code = "bad-offsetof"

	// ProviderDefinition is a provider with its probes, as a program declares them for itself. Such
	// probes can't be traced.
	//
	// Example: provider web { probe request(string); };
	ProviderDefinition Code = "provider-definition"
)

// tag returns dtrace's name for a mistake. dtrace distinguishes fewer: most are D_SYNTAX.
func tag(code Code) string {
	switch code {
	case UnclosedString:
		return "D_STR_NL"
	case UnclosedChar:
		return "D_CHR_NL"
	case EmptyChar:
		return "D_CHR_NULL"
	case LongChar:
		return "D_CHR_OFLOW"
	case BigInt:
		return "D_INT_OFLOW"
	case BadDigit:
		return "D_INT_DIGIT"
	case UnknownMacro:
		return "D_MACRO_UNDEF"
	case BadKernelName:
		return "D_IDENT_UNDEF"
	case EmptyProgram:
		return "D_EMPTY"
	case NeedsPreprocessor, BadDirective:
		return "D_PRAGCTL_INVAL"
	case ErrorDirective:
		return "D_PRAGERR"
	case UnknownPragma:
		return "D_PRAGMA_INVAL"
	case MalformedPragma:
		return "D_PRAGMA_MALFORM"
	case ProbeParts:
		return "D_PDESC_INVAL"
	case NotAssignable, AggregationOp:
		return "D_OP_LVAL"
	case NotCallable:
		return "D_FUNC_IDENT"
	case BadTypeWords:
		return "D_DECL_COMBO"
	case TwoStorages:
		return "D_DECL_CLASS"
	case StoragePlace:
		return "D_DECL_PARMCLASS"
	}
	return "D_SYNTAX"
}
