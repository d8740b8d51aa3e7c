package check

import "culprit/lang/syntax"

// The codes of what is wrong with what a text means. The Example of each gives that one diagnostic and no other.
const (
	// NoProbe is a description that no probe matches.
	//
	// Example: nosuch:::probe { exit(0); }
	NoProbe syntax.Code = "no-probe"

	// NotYet is something that D has and that is not supported yet.
	//
	// Example: BEGIN { trace(stack(3).addrs[arg0]); }
	NotYet syntax.Code = "not-yet"

	// NoTypes is a type of the kernel where its types can't be read.
	//
	// Example: BEGIN { trace(sizeof (struct task_struct)); }
	NoTypes syntax.Code = "no-types"

	// UnknownType is a name in the place of a type that is none.
	//
	// Example: BEGIN { trace(sizeof (nosuch_t)); }
	UnknownType syntax.Code = "unknown-type"

	// AssocPlace is an associative array within another type.
	//
	// Example: none in one text
	AssocPlace syntax.Code = "assoc-place"

	// BadArray is an array that can't be: of void, of a negative length, too large.
	//
	// Example: int x[-1]; BEGIN { exit(0); }
	BadArray syntax.Code = "bad-array"

	// BadFunction is a function's type that can't be.
	//
	// Example: typedef int f_t(void, int); BEGIN { exit(0); }
	BadFunction syntax.Code = "bad-function"

	// BadBitField is a bit field that is no integer, or of more bits than it has.
	//
	// Example: struct s { int x : 33; }; BEGIN { exit(0); }
	BadBitField syntax.Code = "bad-bit-field"

	// EnumValueRange is an enumerator whose value is no constant, or more than an int holds.
	//
	// Example: enum e { A = 0x100000000 }; BEGIN { exit(0); }
	EnumValueRange syntax.Code = "enum-value"

	// Redeclared is a name that is declared twice as different things.
	//
	// Example: int x; string x; BEGIN { exit(0); }
	Redeclared syntax.Code = "redeclared"

	// Incomplete is something of a type that is only named, or has no size.
	//
	// Example: struct nosuch x; BEGIN { exit(0); }
	Incomplete syntax.Code = "incomplete"

	// ThisArray is an associative array of this->, which there is not.
	//
	// Example: BEGIN { this->x[1] = 2; }
	ThisArray syntax.Code = "this-array"

	// UnknownName is a name that stands for nothing, or for nothing yet: the text is read from above.
	//
	// Example: BEGIN { trace(nosuch); }
	UnknownName syntax.Code = "unknown-name"

	// NotAssigned is a variable of self-> or this-> that is looked at before any clause above assigns to it.
	//
	// Example: BEGIN { trace(self->x); }
	NotAssigned syntax.Code = "not-assigned"

	// UnusedArgument is an argument of the program that nothing in it asks for.
	//
	// Example: none in one text
	UnusedArgument syntax.Code = "unused-argument"

	// NoSymbol is a variable of the kernel that there is not.
	//
	// Example: BEGIN { trace(`nosuch); }
	NoSymbol syntax.Code = "no-symbol"

	// ArgsIndex is args[] without a number, or with one that the probe has not.
	//
	// Example: BEGIN { trace(args[0]); }
	ArgsIndex syntax.Code = "args-index"

	// ArgsDiffer is args[] in a clause for probes whose arguments are of different types.
	//
	// Example: syscall::read:entry, syscall::open:entry { trace(args[0]); }
	ArgsDiffer syntax.Code = "args-differ"

	// NoValue is a value wanted where there is none.
	//
	// Example: BEGIN { x = (void)1; }
	NoValue syntax.Code = "no-value"

	// NotScalar is a truth value wanted, and something given that is neither a number nor a pointer.
	//
	// Example: BEGIN { x = !execname; }
	NotScalar syntax.Code = "not-scalar"

	// NotInteger is an integer wanted, and something else given.
	//
	// Example: BEGIN { x = ~execname; }
	NotInteger syntax.Code = "not-integer"

	// Incompatible is two values of types that don't go together.
	//
	// Example: BEGIN { x = 2 * execname; }
	Incompatible syntax.Code = "incompatible"

	// DivisionByZero is a division by a constant zero.
	//
	// Example: BEGIN { x = 1 / 0; }
	DivisionByZero syntax.Code = "division-by-zero"

	// NotPointer is a pointer wanted, or one to something that has a type.
	//
	// Example: BEGIN { x = *1; }
	NotPointer syntax.Code = "not-pointer"

	// NoAddress is & of something that stands nowhere in memory.
	//
	// Example: BEGIN { x = &pid; }
	NoAddress syntax.Code = "no-address"

	// NotStruct is a member of something that has none.
	//
	// Example: BEGIN { x = pid.y; }
	NotStruct syntax.Code = "not-struct"

	// NoMember is a member that a struct has not.
	//
	// Example: struct s { int x; }; BEGIN { trace(((struct s *)0)->y); }
	NoMember syntax.Code = "no-member"

	// NotArray is brackets behind something that is no array, or none where they must be.
	//
	// Example: BEGIN { x = 1; x[1] = 2; }
	NotArray syntax.Code = "not-array"

	// OutOfBounds is an element that the array has not.
	//
	// Example: int x[3]; BEGIN { x[3] = 1; }
	OutOfBounds syntax.Code = "out-of-bounds"

	// NoSize is sizeof of something without a size.
	//
	// Example: BEGIN { trace(sizeof (void)); }
	NoSize syntax.Code = "no-size"

	// NoString is stringof of something that is no string.
	//
	// Example: struct s { int x; } y; BEGIN { trace(stringof(y)); }
	NoString syntax.Code = "no-string"

	// BadCast is a cast to a type that can't be had from the value's.
	//
	// Example: BEGIN { x = (string)1; }
	BadCast syntax.Code = "bad-cast"

	// NotAssignable is a value given to something that holds none.
	//
	// Example: int x[3]; BEGIN { x = 0; }
	NotAssignable syntax.Code = "not-a-place"

	// NotWritable is a value given to something that is not the program's.
	//
	// Example: BEGIN { pid = 1; }
	NotWritable syntax.Code = "not-writable"

	// NotStorable is a value that no variable holds.
	//
	// Example: struct s { int x; }; translator struct s < int n > { x = n; }; BEGIN { x = xlate <struct s *> (1); }
	NotStorable syntax.Code = "not-storable"

	// KeyType is a key of a type that can't be one.
	//
	// Example: BEGIN { @[trace(0)] = count(); }
	KeyType syntax.Code = "key-type"

	// KeyMismatch is keys of other types, or another number of them, than the first time.
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

	// BareAggregation is an aggregation that nothing is done with.
	//
	// Example: BEGIN { @a = count(); @a; }
	BareAggregation syntax.Code = "bare-aggregation"

	// AggregationValue is an aggregation where a value is wanted.
	//
	// Example: BEGIN { @a = count(); x = @a; }
	AggregationValue syntax.Code = "aggregation-value"

	// AggFuncPlace is an aggregating function without its aggregation.
	//
	// Example: BEGIN { count(); }
	AggFuncPlace syntax.Code = "aggregating-function"

	// AggFuncWanted is an aggregation that is assigned something else than an aggregating function.
	//
	// Example: BEGIN { @a = strlen("x"); }
	AggFuncWanted syntax.Code = "not-aggregating"

	// AggScalar is an aggregating function of something that is no number.
	//
	// Example: BEGIN { @a = sum(execname); }
	AggScalar syntax.Code = "aggregation-argument"

	// AggRedefined is an aggregation with another function, or other steps, than the first time.
	//
	// Example: BEGIN { @a = count(); @a = sum(1); }
	AggRedefined syntax.Code = "aggregation-redefined"

	// AggWanted is an action that is for aggregations, with something else.
	//
	// Example: BEGIN { clear(1); }
	AggWanted syntax.Code = "aggregation-wanted"

	// AggKeys is keys where the whole aggregation is meant, or aggregations that don't go together.
	//
	// Example: BEGIN { @a = count(); @b[1] = count(); printa(@a, @b); }
	AggKeys syntax.Code = "aggregation-keys"

	// UnknownAggregation is an aggregation that nothing above adds to.
	//
	// Example: BEGIN { printa(@nosuch); }
	UnknownAggregation syntax.Code = "unknown-aggregation"

	// QuantizeConstant is a bound of lquantize or llquantize that is no constant.
	//
	// Example: BEGIN { @ = lquantize(1, pid, 10, 1); }
	QuantizeConstant syntax.Code = "quantize-constant"

	// QuantizeRange is a bound of lquantize or llquantize that can't be.
	//
	// Example: BEGIN { @ = lquantize(1, 10, 0, 1); }
	QuantizeRange syntax.Code = "quantize-range"

	// UnknownFunction is a function that D has not.
	//
	// Example: BEGIN { prinf("x"); }
	UnknownFunction syntax.Code = "unknown-function"

	// ActionValue is an action where a value is wanted.
	//
	// Example: BEGIN { x = exit(0); }
	ActionValue syntax.Code = "action-value"

	// ArgumentCount is too few or too many arguments.
	//
	// Example: BEGIN { x = strlen(); }
	ArgumentCount syntax.Code = "argument-count"

	// ArgumentType is an argument of a type that the function does not take.
	//
	// Example: BEGIN { x = strlen(1); }
	ArgumentType syntax.Code = "argument-type"

	// StackFrames is a number of frames that can't be.
	//
	// Example: BEGIN { stack(pid); }
	StackFrames syntax.Code = "stack-frames"

	// TracememSize is a size of tracemem that is no constant above 0.
	//
	// Example: BEGIN { tracemem(curthread, 0); }
	TracememSize syntax.Code = "tracemem-size"

	// NotRecordable is something that can't be printed.
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

	// BadFormat is a format that can't be understood.
	//
	// Example: BEGIN { printf("%Q", 1); }
	BadFormat syntax.Code = "bad-format"

	// FormatArguments is more or fewer arguments than a format has conversions.
	//
	// Example: BEGIN { printf("%d %d", 1); }
	FormatArguments syntax.Code = "format-arguments"

	// FormatType is an argument of a type that the conversion does not take.
	//
	// Example: BEGIN { printf("%d", execname); }
	FormatType syntax.Code = "format-type"

	// MixedMemory is memory of the script and other memory in one place.
	//
	// Example: BEGIN { x = (char *)alloca(1); x = (char *)50; }
	MixedMemory syntax.Code = "mixed-memory"

	// ActionOrder is an action that can't stand behind another one of its clause.
	//
	// Example: BEGIN { printf("x"); commit(1); }
	ActionOrder syntax.Code = "action-order"

	// ScratchSize is more memory asked for than the option scratchsize gives.
	//
	// Example: #pragma D option scratchsize=64\nBEGIN { x = alloca(65); }
	ScratchSize syntax.Code = "scratch-size"

	// UnknownOption is an option that there is not.
	//
	// Example: #pragma D option quite\nBEGIN { exit(0); }
	UnknownOption syntax.Code = "unknown-option"

	// OptionValue is a value that an option does not have.
	//
	// Example: #pragma D option strsize=lots\nBEGIN { exit(0); }
	OptionValue syntax.Code = "option-value"

	// BadTranslator is a translator that makes no struct, or none for these types.
	//
	// Example: struct s { int x; }; translator int < struct s *p > { }; BEGIN { exit(0); }
	BadTranslator syntax.Code = "translator"

	// NoConversion is a member that a translator does not give.
	//
	// Example: struct s { int x, y; }; translator struct s < int n > { x = n; }; BEGIN { trace(xlate <struct s *> (1)->y); }
	NoConversion syntax.Code = "no-conversion"

	// UnusedPragma is attributes of a name that there is not.
	//
	// Example: #pragma D attributes Stable/Stable/Common nosuch\nBEGIN { exit(0); }
	UnusedPragma syntax.Code = "unused-pragma"

	// Unstable is something of the kernel's own where the option amin wants what lasts.
	//
	// Example: #pragma D option amin=Stable/Stable/Common\nBEGIN { trace(curthread); }
	Unstable syntax.Code = "unstable"

	// Narrowed is a number of 64 bits assigned to a variable that is an int because it was assigned 0 first; a warning.
	//
	// Example: none in one text
	Narrowed syntax.Code = "narrowed"

	// NotUnderstood is something that nothing can be made of, and of which nothing better is told: a mistake of the compiler.
	//
	// Example: none in one text
	NotUnderstood syntax.Code = "not-understood"
)
