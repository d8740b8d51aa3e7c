package cpp

import "culprit/lang/syntax"

// The codes of mistakes that the preprocessor reports. The Example of each produces that one
// diagnostic and no other. In an example \n is a line's end.
const (
	// BadDefine is a #define, #undef or #ifdef without a name, or with invalid parameters.
	//
	// Example: #define 5 x
	BadDefine syntax.Code = "bad-define"

	// BadDirective is a word after # that is not a directive.
	//
	// Example: #defin X 5
	BadDirective syntax.Code = "bad-directive"

	// BadCondition is an #if with an invalid expression.
	//
	// Example: #if 1 +\n#endif
	BadCondition syntax.Code = "bad-condition"

	// ConditionZero is a division by zero in an #if.
	//
	// Example: #if 1 / 0\n#endif
	ConditionZero syntax.Code = "condition-zero"

	// LoneDirective is an #else, #elif or #endif without its #if, or a second #else.
	//
	// Example: #endif
	LoneDirective syntax.Code = "lone-directive"

	// UnclosedCondition is an #if without its #endif.
	//
	// Example: #if 1
	UnclosedCondition syntax.Code = "unclosed-condition"

	// NoHeader is a file to include that does not exist or can't be read.
	//
	// Example: #include <no/such.h>
	NoHeader syntax.Code = "no-header"

	// BadInclude is an #include without the name of a file.
	//
	// Example: #include stdio.h
	BadInclude syntax.Code = "bad-include"

	// MacroArguments is a macro called with more or fewer arguments than it has parameters.
	//
	// Example: #define F(a, b) a\nF(1)
	MacroArguments syntax.Code = "macro-arguments"

	// UnclosedCall is a macro call without its closing bracket.
	//
	// Example: #define F(a) a\nF(1
	UnclosedCall syntax.Code = "unclosed-call"

	// BadPaste is a ## whose sides make no token together, or that has only one side.
	//
	// Example: #define F(a) a ## -\nF(+)
	BadPaste syntax.Code = "bad-paste"

	// BadStringify is a # in the body of a macro that is not followed by a parameter.
	//
	// Example: #define F(a) #b
	BadStringify syntax.Code = "bad-stringify"

	// BadLine is a #line without a number.
	//
	// Example: #line here
	BadLine syntax.Code = "bad-line"

	// Redefined is a macro that is defined again, differently. It is a warning.
	//
	// Example: #define A 1\n#define A 2
	Redefined syntax.Code = "redefined"

	// WarningDirective is the text of a #warning. It is a warning.
	//
	// Example: #warning old
	WarningDirective syntax.Code = "warning-directive"

	// TooLarge is text that grows beyond the limits: macros that expand to each other, files that
	// include themselves.
	//
	// Example: #include "self"
	TooLarge syntax.Code = "too-large"
)
