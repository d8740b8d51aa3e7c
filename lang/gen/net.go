package gen

import (
	"culprit/lang/check"
	"culprit/lang/ir"

	"github.com/cilium/ebpf/asm"
)

// netAddress formats a network address in the work area.
func (b *builder) netAddress(s *ir.Step) {
	done := b.label()
	one := func(r ir.Reg, size int, name string, body func()) {
		good := b.label()
		b.getNumber(asm.R3, r)
		b.lift(asm.R1, asm.R9, b.lay.text+b.area().hay)
		b.movImm(asm.R2, int64(size))
		b.call(readFrom(s.Space))
		b.ifImm(asm.JEq, asm.R0, 0, good, asm.R1)
		b.getNumber(asm.R3, r)
		b.current.ends.join(b.current.flow)
		b.faultAt(ir.FaultBadAddr)
		b.bind(good)
		b.lift(asm.R1, asm.R9, b.lay.text)
		b.callSub(b.function(name, body))
	}
	either := func(first, second int64, sizes [2]int, names [2]string, bodies [2]func()) {
		other, neither := b.label(), b.label()
		b.get(asm.R1, s.A)
		b.ifImm(asm.JNE, asm.R1, first, other, asm.R0)
		one(s.B, sizes[0], names[0], bodies[0])
		b.jump(done)
		b.bind(other)
		b.ifImm(asm.JNE, asm.R1, second, neither, asm.R0)
		one(s.B, sizes[1], names[1], bodies[1])
		b.jump(done)
		b.bind(neither)
		b.movImm(asm.R3, 0)
		b.current.ends.join(b.current.flow)
		b.faultAt(ir.FaultIllOp)
	}
	switch s.Sub {
	case check.SubInetNtoa:
		one(s.A, 4, "inet4", b.makeInet4)
	case check.SubInetNtoa6:
		if s.N == 0 {
			one(s.A, 16, "inet6 bare", func() { b.makeInet6(true) })
		} else {
			one(s.A, 16, "inet6", func() { b.makeInet6(false) })
		}
	case check.SubInetNtop:
		const inet, inet6 = 2, 10 // AF_INET, AF_INET6
		either(
			inet, inet6, [2]int{4, 16}, [2]string{"inet4", "inet6"},
			[2]func(){b.makeInet4, func() { b.makeInet6(false) }},
		)
	default:
		const ether, infiniband = 1, 32 // ARPHRD_ETHER, ARPHRD_INFINIBAND
		either(
			ether, infiniband, [2]int{6, 20}, [2]string{"link6", "link20"},
			[2]func(){func() { b.makeLink(6) }, func() { b.makeLink(20) }},
		)
	}
	b.bind(done)
}

// wordOut is the word of the work area that counts the bytes written.
const wordOut = 0

// char writes the character in r1, or the constant c.
func (b *builder) char(c byte) {
	full := b.label()
	b.getWord(asm.R2, wordOut)
	b.within(asm.R2, b.p.StrSize-2, full)
	b.mov(asm.R3, asm.R6)
	b.alu(asm.Add, asm.R3, asm.R2)
	if c != 0 {
		b.storeImm(asm.R3, b.area().result, int64(c), 1, asm.R0)
	} else {
		b.store(asm.R3, b.area().result, asm.R1, 1)
	}
	b.add(asm.Add.Imm(asm.R2, 1))
	b.setWord(wordOut, asm.R2)
	b.bind(full)
}

// begin starts a function that writes characters.
func (b *builder) begin() {
	b.mov(asm.R6, asm.R1)
	b.clearResult()
	b.zeroWord(wordOut)
}

func (b *builder) finish() {
	b.movImm(asm.R0, 0)
	b.exit()
}

// makeInet4 makes the function that formats the 4 bytes in the hay of the work area at r1 as an
// IPv4 address.
func (b *builder) makeInet4() {
	b.begin()
	b.dotted(0)
	b.finish()
}

// dotted formats 4 bytes of the hay as decimal numbers.
func (b *builder) dotted(from int) {
	for i := range 4 {
		if i > 0 {
			b.char('.')
		}
		tens, ones := b.label(), b.label()
		b.load(asm.R7, asm.R6, b.area().hay+from+i, 1, false)
		digit := func(by int32) {
			b.mov(asm.R1, asm.R7)
			if by > 1 {
				b.add(asm.Div.Imm(asm.R1, by))
			}
			b.add(asm.Mod.Imm(asm.R1, 10))
			b.add(asm.Add.Imm(asm.R1, '0'))
			b.char(0)
		}
		b.ifImm(asm.JLT, asm.R7, 100, tens, asm.R0)
		digit(100)
		b.bind(tens)
		b.ifImm(asm.JLT, asm.R7, 10, ones, asm.R0)
		digit(10)
		b.bind(ones)
		digit(1)
	}
}

// hex writes the lowest hexadecimal digit of r1.
func (b *builder) hex() {
	letter := b.label()
	b.add(asm.And.Imm(asm.R1, 15))
	b.add(asm.Add.Imm(asm.R1, '0'))
	b.ifImm(asm.JLE, asm.R1, '9', letter, asm.R0)
	b.add(asm.Add.Imm(asm.R1, 'a'-'9'-1))
	b.bind(letter)
	b.char(0)
}

// makeInet6 makes the function that formats 16 bytes as an IPv6 address by RFC 5952: the longest
// run of at least two zero groups becomes ::. bare: an IPv4 address in it is formatted alone.
// Words: length of the current run, length of the longest one, its end.
func (b *builder) makeInet6(bare bool) {
	const row, longest, end = 1, 2, 3
	a := b.area()
	b.begin()
	b.zeroWord(row)
	b.zeroWord(longest)
	b.zeroWord(end)
	group := func(i int) { // r7
		b.load(asm.R7, asm.R6, a.hay+2*i, 2, false)
		b.add(asm.HostTo(asm.BE, asm.R7, asm.Half))
	}
	// IPv4 in it: ::ffff:1.2.3.4, ::1.2.3.4; but :: and ::1 are IPv6.
	mapped, old := b.label(), b.label()
	four := func(before string) {
		if !bare {
			for _, c := range []byte(before) {
				b.char(c)
			}
		}
		b.dotted(12)
		b.finish()
	}
	b.load(asm.R1, asm.R6, a.hay, 8, false)
	b.ifImm(asm.JNE, asm.R1, 0, mapped, asm.R0)
	b.load(asm.R1, asm.R6, a.hay+8, 4, false)
	b.add(asm.HostTo(asm.BE, asm.R1, asm.Word))
	b.ifImm(asm.JEq, asm.R1, 0, old, asm.R0)
	b.ifImm(asm.JNE, asm.R1, 0xffff, mapped, asm.R0)
	four("::ffff:")
	b.bind(old)
	b.load(asm.R1, asm.R6, a.hay+12, 4, false)
	b.add(asm.HostTo(asm.BE, asm.R1, asm.Word))
	b.ifImm(asm.JLE, asm.R1, 1, mapped, asm.R0)
	four("::")
	b.bind(mapped)
	for i := range 8 {
		zero, next := b.label(), b.label()
		group(i)
		b.ifImm(asm.JEq, asm.R7, 0, zero, asm.R0)
		b.zeroWord(row)
		b.jump(next)
		b.bind(zero)
		b.getWord(asm.R1, row)
		b.add(asm.Add.Imm(asm.R1, 1))
		b.setWord(row, asm.R1)
		b.getWord(asm.R2, longest)
		b.ifReg(asm.JLE, asm.R1, asm.R2, next)
		b.setWord(longest, asm.R1)
		b.movImm(asm.R2, int64(i+1))
		b.setWord(end, asm.R2)
		b.bind(next)
	}
	long := b.label()
	b.getWord(asm.R1, longest)
	b.ifImm(asm.JGT, asm.R1, 1, long, asm.R0)
	b.zeroWord(longest)
	b.zeroWord(end)
	b.bind(long)
	for i := range 8 {
		start, colon, digits, next := b.label(), b.label(), b.label(), b.label()
		// r1: start of the run, r2: its end; both 0: there is none.
		b.getWord(asm.R2, end)
		b.getWord(asm.R3, longest)
		b.mov(asm.R1, asm.R2)
		b.alu(asm.Sub, asm.R1, asm.R3)
		if i > 0 {
			b.ifImm(asm.JGT, asm.R1, int64(i), colon, asm.R0) // before it
		}
		b.ifImm(asm.JLE, asm.R2, int64(i), colon, asm.R0) // after it
		b.ifImm(asm.JEq, asm.R1, int64(i), start, asm.R0)
		if i == 0 {
			b.jump(digits)
		} else {
			b.jump(next)
		}
		b.bind(start)
		b.char(':')
		b.char(':')
		b.jump(next)
		b.bind(colon)
		if i > 0 {
			b.ifImm(asm.JEq, asm.R2, int64(i), digits, asm.R0) // :: includes it
			b.char(':')
		}
		b.bind(digits)
		group(i)
		for shift := 12; shift >= 0; shift -= 4 {
			skip := b.label()
			if shift > 0 {
				b.ifImm(asm.JLT, asm.R7, 1<<shift, skip, asm.R0)
			}
			b.mov(asm.R1, asm.R7)
			if shift > 0 {
				b.add(asm.RSh.Imm(asm.R1, int32(shift)))
			}
			b.hex()
			b.bind(skip)
		}
		b.bind(next)
	}
	b.finish()
}

// makeLink makes the function that formats n bytes as a hardware address.
func (b *builder) makeLink(n int) {
	b.begin()
	for i := range n {
		if i > 0 {
			b.char(':')
		}
		b.load(asm.R7, asm.R6, b.area().hay+i, 1, false)
		b.mov(asm.R1, asm.R7)
		b.add(asm.RSh.Imm(asm.R1, 4))
		b.hex()
		b.mov(asm.R1, asm.R7)
		b.hex()
	}
	b.finish()
}
