package gen

import (
	"culprit/lang/ir"

	"github.com/cilium/ebpf/asm"
)

// self leaves the address of the thread's variables in r0. It jumps to none if there are none; with
// create that is counted as a loss.
func (b *builder) self(create bool, none label) {
	if b.current.flow.self == always {
		b.load(asm.R0, asm.R10, slotSelf, 8, false)
		return
	}
	had := b.label()
	if b.current.flow.self != never {
		b.load(asm.R0, asm.R10, slotSelf, 8, false)
		b.ifImm(asm.JNE, asm.R0, 0, had, asm.R1)
	}
	b.selfOf()
	if create {
		b.callSub(b.function("self", func() { b.makeSelf(true) }))
	} else {
		b.callSub(b.function("self?", func() { b.makeSelf(false) }))
	}
	b.store(asm.R10, slotSelf, asm.R0, 8)
	b.ifImm(asm.JEq, asm.R0, 0, none, asm.R1)
	b.bind(had)
	// On the way to none there are no variables: code there must not rely on the slot.
	b.current.flow.self = never | always
}

// makeSelf makes the function that returns the variables of the thread or, with create, adds them
// as zeroes; 0: there are none.
func (b *builder) makeSelf(create bool) {
	got, done := b.label(), b.label()
	if b.k.TaskStorage {
		if !b.other() {
			b.call(asm.FnGetCurrentTaskBtf)
			b.mov(asm.R1, asm.R0)
		}
		b.mov(asm.R2, asm.R1)
		b.mapPtr(asm.R1, MapSelf)
		b.movImm(asm.R3, 0)
		b.movImm(asm.R4, 0)
		if create {
			b.movImm(asm.R4, 1) // BPF_LOCAL_STORAGE_GET_F_CREATE
		}
		b.call(asm.FnTaskStorageGet)
	} else {
		// By the thread's id; the idle threads share one, so by their CPU.
		if b.other() {
			b.mov(asm.R0, asm.R1)
		} else {
			b.call(asm.FnGetCurrentPidTgid)
		}
		known := b.label()
		b.extend(asm.R0, 4, false)
		b.ifImm(asm.JNE, asm.R0, 0, known, asm.R1)
		b.call(asm.FnGetSmpProcessorId)
		b.movImm(asm.R1, 1<<32)
		b.alu(asm.Or, asm.R0, asm.R1)
		b.bind(known)
		b.store(asm.R10, -8, asm.R0, 8)
		look := func() {
			b.mapPtr(asm.R1, MapSelf)
			b.mov(asm.R2, asm.R10)
			b.aluImm(asm.Add, asm.R2, -8, asm.R0)
		}
		look()
		b.call(asm.FnMapLookupElem)
		if create {
			b.ifImm(asm.JNE, asm.R0, 0, got, asm.R1)
			look()
			b.mapValue(asm.R3, MapLiterals, b.lay.zeroes)
			b.movImm(asm.R4, 1) // BPF_NOEXIST
			b.call(asm.FnMapUpdateElem)
			look()
			b.call(asm.FnMapLookupElem)
		}
	}
	b.bind(got)
	if create {
		b.ifImm(asm.JNE, asm.R0, 0, done, asm.R1)
		b.drop(ir.DropDynamic)
		b.movImm(asm.R0, 0)
		b.bind(done)
	}
	b.exit()
}
