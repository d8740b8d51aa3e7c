package cpp

import "culprit/lang/syntax"

// The codes of what is wrong with what is there for the preprocessor. The Example of each gives that one diagnostic and no
// other. In an example \n is a line's end.
const (
	// BadDefine is a #define, #undef or #ifdef without a name, or with parameters that can't be.
	//
	// Example: #define 5 x
	BadDefine syntax.Code = "bad-define"

	// BadDirective is a word behind # that is no directive.
	//
	// Example: #defin X 5
	BadDirective syntax.Code = "bad-directive"

	// BadCondition is an #if whose expression is none.
	//
	// Example: #if 1 +\n#endif
	BadCondition syntax.Code = "bad-condition"

	// ConditionZero is a division by zero in an #if.
	//
	// Example: #if 1 / 0\n#endif
	ConditionZero syntax.Code = "condition-zero"

	// LoneDirective is an #else, #elif or #endif without its #if, or an #else behind another.
	//
	// Example: #endif
	LoneDirective syntax.Code = "lone-directive"

	// UnclosedCondition is an #if without its #endif.
	//
	// Example: #if 1
	UnclosedCondition syntax.Code = "unclosed-condition"

	// NoHeader is a file to include that is not there or can't be read.
	//
	// Example: #include <no/such.h>
	NoHeader syntax.Code = "no-header"

	// BadInclude is an #include without the name of a file.
	//
	// Example: #include stdio.h
	BadInclude syntax.Code = "bad-include"

	// MacroArguments is a macro that is called with more or fewer arguments than it has parameters.
	//
	// Example: #define F(a, b) a\nF(1)
	MacroArguments syntax.Code = "macro-arguments"

	// UnclosedCall is a macro's call whose bracket is never closed.
	//
	// Example: #define F(a) a\nF(1
	UnclosedCall syntax.Code = "unclosed-call"

	// BadPaste is a ## that makes no token of its two sides, or has but one side.
	//
	// Example: #define F(a) a ## -\nF(+)
	BadPaste syntax.Code = "bad-paste"

	// BadStringify is a # in the body of a macro that is before no parameter.
	//
	// Example: #define F(a) #b
	BadStringify syntax.Code = "bad-stringify"

	// BadLine is a #line that gives no number.
	//
	// Example: #line here
	BadLine syntax.Code = "bad-line"

	// Redefined is a macro that is defined again as something else. It is a warning.
	//
	// Example: #define A 1\n#define A 2
	Redefined syntax.Code = "redefined"

	// WarningDirective is what #warning says. It is a warning.
	//
	// Example: #warning old
	WarningDirective syntax.Code = "warning-directive"

	// TooLarge is text that grows beyond all bounds: macros that make each other, files that include themselves.
	//
	// Example: #include "self"
	TooLarge syntax.Code = "too-large"
)
