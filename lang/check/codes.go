package check

import "culprit/lang/syntax"

// The codes of mistakes in the meaning of a text. The Example of each produces that one diagnostic
// and no other.
const (
	// NoProbe is a description that no probe matches.
	//
	// Example: nosuch:::probe { exit(0); }
	NoProbe syntax.Code = "no-probe"

	// NotYet is a feature of D that is not supported.
	//
	// Example: BEGIN { trace(stack(3).addrs[arg0]); }
	NotYet syntax.Code = "not-yet"

	// NoTypes is a use of a kernel type when the kernel's types are not available.
	//
	// Example: BEGIN { trace(sizeof (struct task_struct)); }
	NoTypes syntax.Code = "no-types"

	// UnknownType is an unknown name in place of a type.
	//
	// Example: BEGIN { trace(sizeof (nosuch_t)); }
	UnknownType syntax.Code = "unknown-type"

	// AssocPlace is an associative array within another type.
	//
	// Example: none in one text
	AssocPlace syntax.Code = "assoc-place"

	// BadArray is an invalid array: of void, of a negative length, too large.
	//
	// Example: int x[-1]; BEGIN { exit(0); }
	BadArray syntax.Code = "bad-array"

	// BadFunction is an invalid function type.
	//
	// Example: typedef int f_t(void, int); BEGIN { exit(0); }
	BadFunction syntax.Code = "bad-function"

	// BadBitField is a bit field that is no integer, or has more bits than its type.
	//
	// Example: struct s { int x : 33; }; BEGIN { exit(0); }
	BadBitField syntax.Code = "bad-bit-field"

	// EnumValueRange is an enumerator whose value is not constant, or does not fit in an int.
	//
	// Example: enum e { A = 0x100000000 }; BEGIN { exit(0); }
	EnumValueRange syntax.Code = "enum-value"

	// Redeclared is a name that is declared twice with different meanings.
	//
	// Example: int x; string x; BEGIN { exit(0); }
	Redeclared syntax.Code = "redeclared"

	// Incomplete is a variable or member of a type that is only named, or has no size.
	//
	// Example: struct nosuch x; BEGIN { exit(0); }
	Incomplete syntax.Code = "incomplete"

	// ThisArray is a clause-local associative array, which D does not have.
	//
	// Example: BEGIN { this->x[1] = 2; }
	ThisArray syntax.Code = "this-array"

	// UnknownName is an unknown name, or one that is defined only later in the text.
	//
	// Example: BEGIN { trace(nosuch); }
	UnknownName syntax.Code = "unknown-name"

	// NotAssigned is a variable of self-> or this-> that no clause before assigns to.
	//
	// Example: BEGIN { trace(self->x); }
	NotAssigned syntax.Code = "not-assigned"

	// UnusedArgument is an argument of the program that its text does not use.
	//
	// Example: none in one text
	UnusedArgument syntax.Code = "unused-argument"

	// NoSymbol is an unknown kernel variable.
	//
	// Example: BEGIN { trace(`nosuch); }
	NoSymbol syntax.Code = "no-symbol"

	// ArgsIndex is args[] without a number, or with a number that the probe does not have.
	//
	// Example: BEGIN { trace(args[0]); }
	ArgsIndex syntax.Code = "args-index"

	// ArgsDiffer is args[] in a clause for probes whose arguments have different types.
	//
	// Example: syscall::read:entry, syscall::open:entry { trace(args[0]); }
	ArgsDiffer syntax.Code = "args-differ"

	// NoValue is an expression without a value where a value is required.
	//
	// Example: BEGIN { x = (void)1; }
	NoValue syntax.Code = "no-value"

	// NotScalar is a condition that is neither a number nor a pointer.
	//
	// Example: BEGIN { x = !execname; }
	NotScalar syntax.Code = "not-scalar"

	// NotInteger is another type where an integer is required.
	//
	// Example: BEGIN { x = ~execname; }
	NotInteger syntax.Code = "not-integer"

	// Incompatible is an operation on two values of incompatible types.
	//
	// Example: BEGIN { x = 2 * execname; }
	Incompatible syntax.Code = "incompatible"

	// DivisionByZero is a division by a constant zero.
	//
	// Example: BEGIN { x = 1 / 0; }
	DivisionByZero syntax.Code = "division-by-zero"

	// NotPointer is another type where a pointer is required, or a void pointer.
	//
	// Example: BEGIN { x = *1; }
	NotPointer syntax.Code = "not-pointer"

	// NoAddress is & of an expression that is not in memory.
	//
	// Example: BEGIN { x = &pid; }
	NoAddress syntax.Code = "no-address"

	// NotStruct is a member of a value without members.
	//
	// Example: BEGIN { x = pid.y; }
	NotStruct syntax.Code = "not-struct"

	// NoMember is a member that the struct does not have.
	//
	// Example: struct s { int x; }; BEGIN { trace(((struct s *)0)->y); }
	NoMember syntax.Code = "no-member"

	// NotArray is brackets after something other than an array, or missing keys.
	//
	// Example: BEGIN { x = 1; x[1] = 2; }
	NotArray syntax.Code = "not-array"

	// OutOfBounds is an index beyond the end of an array.
	//
	// Example: int x[3]; BEGIN { x[3] = 1; }
	OutOfBounds syntax.Code = "out-of-bounds"

	// NoSize is sizeof of something without a size.
	//
	// Example: BEGIN { trace(sizeof (void)); }
	NoSize syntax.Code = "no-size"

	// NoString is stringof of a value that can't be converted to a string.
	//
	// Example: struct s { int x; } y; BEGIN { trace(stringof(y)); }
	NoString syntax.Code = "no-string"

	// BadCast is an impossible cast.
	//
	// Example: BEGIN { x = (string)1; }
	BadCast syntax.Code = "bad-cast"

	// NotAssignable is an assignment to something that can't be assigned to.
	//
	// Example: int x[3]; BEGIN { x = 0; }
	NotAssignable syntax.Code = "not-a-place"

	// NotWritable is an assignment to something that belongs to D or the kernel.
	//
	// Example: BEGIN { pid = 1; }
	NotWritable syntax.Code = "not-writable"

	// NotStorable is a value that no variable can contain.
	//
	// Example: struct s { int x; }; translator struct s < int n > { x = n; }; BEGIN { x = xlate
	// <struct s *> (1); }
	NotStorable syntax.Code = "not-storable"

	// KeyType is a key of a type that can't be a key.
	//
	// Example: BEGIN { @[trace(0)] = count(); }
	KeyType syntax.Code = "key-type"

	// KeyMismatch is keys of other types, or another number of keys, than at the first use.
	//
	// Example: BEGIN { x[1] = 2; x[1, 2] = 3; }
	KeyMismatch syntax.Code = "key-mismatch"

	// PredicateType is a predicate that is neither a number nor a pointer.
	//
	// Example: BEGIN /execname/ { exit(0); }
	PredicateType syntax.Code = "predicate-type"

	// AssignInPredicate is a predicate that assigns, where == was most likely meant; a warning.
	//
	// Example: none in one text
	AssignInPredicate syntax.Code = "assign-in-predicate"

	// BareAggregation is an aggregation without an assignment.
	//
	// Example: BEGIN { @a = count(); @a; }
	BareAggregation syntax.Code = "bare-aggregation"

	// AggregationValue is an aggregation where a value is required.
	//
	// Example: BEGIN { @a = count(); x = @a; }
	AggregationValue syntax.Code = "aggregation-value"

	// AggFuncPlace is an aggregating function without its aggregation.
	//
	// Example: BEGIN { count(); }
	AggFuncPlace syntax.Code = "aggregating-function"

	// AggFuncWanted is an assignment of something other than an aggregating function to an
	// aggregation.
	//
	// Example: BEGIN { @a = strlen("x"); }
	AggFuncWanted syntax.Code = "not-aggregating"

	// AggScalar is an aggregating function of a value that is not a number.
	//
	// Example: BEGIN { @a = sum(execname); }
	AggScalar syntax.Code = "aggregation-argument"

	// AggRedefined is an aggregation with another function, or other parameters, than at its first
	// use.
	//
	// Example: BEGIN { @a = count(); @a = sum(1); }
	AggRedefined syntax.Code = "aggregation-redefined"

	// AggWanted is an action on aggregations with another argument.
	//
	// Example: BEGIN { clear(1); }
	AggWanted syntax.Code = "aggregation-wanted"

	// AggKeys is keys where a whole aggregation is required, or aggregations with different keys.
	//
	// Example: BEGIN { @a = count(); @b[1] = count(); printa(@a, @b); }
	AggKeys syntax.Code = "aggregation-keys"

	// UnknownAggregation is an aggregation that no clause before adds to.
	//
	// Example: BEGIN { printa(@nosuch); }
	UnknownAggregation syntax.Code = "unknown-aggregation"

	// QuantizeConstant is a parameter of lquantize or llquantize that is not constant.
	//
	// Example: BEGIN { @ = lquantize(1, pid, 10, 1); }
	QuantizeConstant syntax.Code = "quantize-constant"

	// QuantizeRange is an invalid parameter of lquantize or llquantize.
	//
	// Example: BEGIN { @ = lquantize(1, 10, 0, 1); }
	QuantizeRange syntax.Code = "quantize-range"

	// UnknownFunction is an unknown function.
	//
	// Example: BEGIN { prinf("x"); }
	UnknownFunction syntax.Code = "unknown-function"

	// ActionValue is an action where a value is required.
	//
	// Example: BEGIN { x = exit(0); }
	ActionValue syntax.Code = "action-value"

	// ArgumentCount is too few or too many arguments.
	//
	// Example: BEGIN { x = strlen(); }
	ArgumentCount syntax.Code = "argument-count"

	// ArgumentType is an argument of a type that the function does not accept.
	//
	// Example: BEGIN { x = strlen(1); }
	ArgumentType syntax.Code = "argument-type"

	// StackFrames is an invalid number of frames.
	//
	// Example: BEGIN { stack(pid); }
	StackFrames syntax.Code = "stack-frames"

	// TracememSize is a size of tracemem that is not a constant above 0.
	//
	// Example: BEGIN { tracemem(curthread, 0); }
	TracememSize syntax.Code = "tracemem-size"

	// NotRecordable is a value that can't be printed.
	//
	// Example: none in one text
	NotRecordable syntax.Code = "not-recordable"

	// Destructive is an action that changes the system, without -w.
	//
	// Example: BEGIN { raise(9); }
	Destructive syntax.Code = "destructive"

	// FormatWanted is a printf without its format.
	//
	// Example: BEGIN { printf(pid); }
	FormatWanted syntax.Code = "format-wanted"

	// BadFormat is an invalid format.
	//
	// Example: BEGIN { printf("%Q", 1); }
	BadFormat syntax.Code = "bad-format"

	// FormatArguments is more or fewer arguments than a format has conversions.
	//
	// Example: BEGIN { printf("%d %d", 1); }
	FormatArguments syntax.Code = "format-arguments"

	// FormatType is an argument of a type that the conversion does not accept.
	//
	// Example: BEGIN { printf("%d", execname); }
	FormatType syntax.Code = "format-type"

	// MixedMemory is a value that points to memory of the script or to other memory, depending on a
	// condition.
	//
	// Example: BEGIN { x = (char *)alloca(1); x = (char *)50; }
	MixedMemory syntax.Code = "mixed-memory"

	// ActionOrder is an action that can't follow another one of its clause.
	//
	// Example: BEGIN { printf("x"); commit(1); }
	ActionOrder syntax.Code = "action-order"

	// ScratchSize is a request for more memory than the option scratchsize allows.
	//
	// Example: #pragma D option scratchsize=64\nBEGIN { x = alloca(65); }
	ScratchSize syntax.Code = "scratch-size"

	// UnknownOption is an unknown option.
	//
	// Example: #pragma D option quite\nBEGIN { exit(0); }
	UnknownOption syntax.Code = "unknown-option"

	// OptionValue is an invalid value of an option.
	//
	// Example: #pragma D option strsize=lots\nBEGIN { exit(0); }
	OptionValue syntax.Code = "option-value"

	// BadTranslator is a translator whose output is no struct, or a missing translator.
	//
	// Example: struct s { int x; }; translator int < struct s *p > { }; BEGIN { exit(0); }
	BadTranslator syntax.Code = "translator"

	// NoConversion is a member that a translator does not define.
	//
	// Example: struct s { int x, y; }; translator struct s < int n > { x = n; }; BEGIN {
	// trace(xlate <struct s *> (1)->y); }
	NoConversion syntax.Code = "no-conversion"

	// UnusedPragma is attributes for an unknown name.
	//
	// Example: #pragma D attributes Stable/Stable/Common nosuch\nBEGIN { exit(0); }
	UnusedPragma syntax.Code = "unused-pragma"

	// Unstable is a use of kernel internals when the option amin requires stable interfaces.
	//
	// Example: #pragma D option amin=Stable/Stable/Common\nBEGIN { trace(curthread); }
	Unstable syntax.Code = "unstable"

	// Narrowed is a 64-bit number assigned to a variable that is an int because of its first value;
	// a warning.
	//
	// Example: none in one text
	Narrowed syntax.Code = "narrowed"

	// NotUnderstood is an expression that can't be compiled and has no better diagnostic: a fault
	// of the compiler.
	//
	// Example: none in one text
	NotUnderstood syntax.Code = "not-understood"
)
