package gen

import (
	"github.com/cilium/ebpf/asm"
)

// The numbers of a layout of PHP.
const (
	phKnown   = iota // 1: frames can be read
	phOpcodes        // of the code of a function: its operations
	phCount          // how many they are
	phFile           // its file
)

// Offsets in structs, the same in all versions.
const (
	phpOperation = 0  // of a call (zend_execute_data): its operation
	phpFunction  = 24 // its function
	phpFlags     = 40 // its flags: the type of This
	phpCaller    = 48
	phpCallSize  = 56
	phpName      = 8  // of a function: its name
	phpHash      = 8  // of a text (zend_string): its hash
	phpLine      = 24 // of an operation (zend_op)
	phpOpSize    = 32
)

const (
	phpTop  = 1 << 17 // of the flags of a call: the last one of a call of the evaluator
	phpUser = 2       // of the type of a function: it is written in PHP
	phpEval = 4
)

// What a function without a name is, in the lowest bits of the method of its frame, as in package
// php.
const (
	phpMain      = 1 + iota // the program
	phpIncluded             // a file that another one includes
	phpEvaluated            // code that eval() has
)

// What frames of unknown files have as code, as in package php.
const (
	phpEvalCode = 8  // of eval()
	phpNoHash   = 16 // of a file that another one includes
)

// The places of what is read, in the function's stack.
const (
	phpCallPlace     = -128 // a call
	phpFunctionPlace = -144 // the first members of its function
	phpMethodPlace   = -152
)

// A phpCode is the code of PHP in makeInterpreter.
type phpCode struct{ *interpreterCode }

// begin finds the current call. r8 is the bias. PHP that is built for threads has no layout.
//
//	call = *(u64 *)(l->head + w->bias);
//	if (!call) goto no_thread;
//	w->in_at = call; w->in_state = READY;
//	return AGAIN;
func (b *phpCode) begin() {
	b.load(asm.R3, asm.R7, inHead, 8, false)
	b.alu(asm.Add, asm.R3, asm.R8)
	b.word()
	b.ifImm(asm.JEq, asm.R1, 0, b.noThread, asm.R2)
	b.store(asm.R6, walkInAt, asm.R1, 8)
	b.storeImm(asm.R6, walkInState, interpreterReady, 8, asm.R1)
	b.result(interpreterAgain)
}

// search is not used: there is one thread.
func (b *phpCode) search() { b.jump(b.keep) }

// frame stores the frame of the call r9, if its function is written in PHP.
//
//	if (!call) goto leave;
//	operation, function, flags, caller = *call;
//	w->in_at = caller;
//	if (!function) return AGAIN;
//	type, name = *function;
//	if (type != USER && type != EVAL) return AGAIN;  // C: a frame of its own
//	code = function->opcodes;                        // copies of a closure share them
//	if (function & 7 || !code || code >= MOST_ADDRESS || code & 7) goto unreadable;
//	at = operation - code;
//	line = at < 32 * function->count ? operation->line : UNKNOWN; // else it is not written yet
//	kind = 0;
//	if (!name)                                       // PHP frees it when it returns
//		function, kind, code = as unnamed has it;
//	store the frame with function | kind as its method
//	w->in_got = 1;
//	if (flags & TOP) goto leave;
//	return AGAIN;
func (b *phpCode) frame() {
	skip, user, named := b.label(), b.label(), b.label()
	b.ifImm(asm.JEq, asm.R9, 0, b.leave, asm.R1)
	b.mov(asm.R3, asm.R9)
	b.userPlace(phpCallPlace, phpCallSize)
	b.load(asm.R8, asm.R10, phpCallPlace+phpCaller, 8, false)
	b.store(asm.R6, walkInAt, asm.R8, 8)
	b.load(asm.R9, asm.R10, phpCallPlace+phpFunction, 8, false)
	b.ifImm(asm.JEq, asm.R9, 0, skip, asm.R1)
	b.mov(asm.R3, asm.R9)
	b.userPlace(phpFunctionPlace, phpName+8)
	b.load(asm.R1, asm.R10, phpFunctionPlace, 1, false)
	b.ifImm(asm.JEq, asm.R1, phpUser, user, asm.R2)
	b.ifImm(asm.JNE, asm.R1, phpEval, skip, asm.R2)
	b.bind(user)
	b.store(asm.R10, phpMethodPlace, asm.R9, 8)
	b.mov(asm.R1, asm.R9)
	b.add(asm.And.Imm(asm.R1, 7))
	b.ifImm(asm.JNE, asm.R1, 0, b.unreadable, asm.R2)
	b.pointer(phOpcodes)
	b.line()
	b.load(asm.R2, asm.R10, phpFunctionPlace+phpName, 8, false)
	b.ifImm(asm.JNE, asm.R2, 0, named, asm.R3)
	b.mov(asm.R8, asm.R1)
	b.unnamed()
	b.mov(asm.R1, asm.R8)
	b.bind(named)
	b.storeFrame(func() { b.load(asm.R1, asm.R10, phpMethodPlace, 8, false) })
	b.storeImm(asm.R6, walkInGot, 1, 8, asm.R1)
	b.load(asm.R1, asm.R10, phpCallPlace+phpFlags, 4, false)
	b.add(asm.And.Imm(asm.R1, phpTop))
	b.ifImm(asm.JNE, asm.R1, 0, b.leave, asm.R2)
	b.bind(skip)
	b.result(interpreterAgain)
}

// pointer reads the pointer to code that is a member of the function r9 into codePlace.
func (b *phpCode) pointer(member int) {
	b.member(asm.R9, member)
	b.ifImm(asm.JEq, asm.R1, 0, b.unreadable, asm.R2)
	b.movImm(asm.R2, frameMostAddress)
	b.ifReg(asm.JGE, asm.R1, asm.R2, b.unreadable)
	b.mov(asm.R2, asm.R1)
	b.add(asm.And.Imm(asm.R2, 7))
	b.ifImm(asm.JNE, asm.R2, 0, b.unreadable, asm.R3)
	b.store(asm.R10, codePlace, asm.R1, 8)
}

// unnamed makes a frame of the function r9, which has no name. Its method is its file. Its code is
// what others that are at its address later do not have: the file of the program, which stays until
// the request ends, or the hash of the name of a file that another one includes.
//
//	code = function->file;
//	if (!code || code >= MOST_ADDRESS || code & 7) goto unreadable;
//	if (type == EVAL) {
//		method = EVALUATED;                      // its file is one of its own
//		code = EVAL_CODE;
//	} else if (caller) {
//		method = code | INCLUDED;
//		code = code->hash & CODE_BITS << 3 ?: NO_HASH; // PHP has not calculated it
//	} else {
//		method = code | MAIN;
//	}
func (b *phpCode) unnamed() {
	evaluated, included, done, code := b.label(), b.label(), b.label(), b.label()
	b.pointer(phFile)
	b.load(asm.R3, asm.R10, codePlace, 8, false)
	b.load(asm.R1, asm.R10, phpFunctionPlace, 1, false)
	b.ifImm(asm.JEq, asm.R1, phpEval, evaluated, asm.R2)
	b.load(asm.R1, asm.R10, phpCallPlace+phpCaller, 8, false)
	b.ifImm(asm.JNE, asm.R1, 0, included, asm.R2)
	b.add(asm.Or.Imm(asm.R3, phpMain))
	b.store(asm.R10, phpMethodPlace, asm.R3, 8)
	b.jump(done)
	b.bind(evaluated)
	b.movImm(asm.R3, phpEvaluated)
	b.store(asm.R10, phpMethodPlace, asm.R3, 8)
	b.movImm(asm.R1, phpEvalCode)
	b.jump(code)
	b.bind(included)
	b.mov(asm.R1, asm.R3)
	b.add(asm.Or.Imm(asm.R1, phpIncluded))
	b.store(asm.R10, phpMethodPlace, asm.R1, 8)
	b.add(asm.Add.Imm(asm.R3, phpHash))
	b.word()
	b.movImm(asm.R2, (1<<frameCodeBits-1)<<3)
	b.alu(asm.And, asm.R1, asm.R2)
	b.ifImm(asm.JNE, asm.R1, 0, code, asm.R2)
	b.movImm(asm.R1, phpNoHash)
	b.bind(code)
	b.store(asm.R10, codePlace, asm.R1, 8)
	b.bind(done)
}

// line leaves the line of the call at phpCallPlace of the function r9 in r1.
func (b *phpCode) line() {
	unknown, done := b.label(), b.label()
	b.load(asm.R1, asm.R10, codePlace, 8, false)
	b.load(asm.R8, asm.R10, phpCallPlace+phpOperation, 8, false)
	b.alu(asm.Sub, asm.R8, asm.R1)
	b.number(asm.R3, phCount)
	b.alu(asm.Add, asm.R3, asm.R9)
	b.userWords(4, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 4, false)
	b.add(asm.LSh.Imm(asm.R1, 5)) // of phpOpSize bytes each
	b.ifReg(asm.JGE, asm.R8, asm.R1, unknown)
	b.load(asm.R3, asm.R10, phpCallPlace+phpOperation, 8, false)
	b.add(asm.Add.Imm(asm.R3, phpLine))
	b.userWords(4, unknown)
	b.load(asm.R1, asm.R6, walkTemp, 4, false)
	b.ifImm(asm.JEq, asm.R1, 0, unknown, asm.R2)
	b.ifImm(asm.JLT, asm.R1, unknownInstruction, done, asm.R2)
	b.bind(unknown)
	b.movImm(asm.R1, unknownInstruction)
	b.bind(done)
}
