package symbol

// probeableAMD64 reports whether an instruction can have a probe. For instructions with VEX or
// EVEX, kernels up to at least 6.18 take the opcode as one of the first table: 62 e2 7d 28 7a c6,
// which fills a register, is executed as 7a, a jump. Kernels refuse the lock prefix and segment
// prefixes.
func probeableAMD64(code []byte) Probeability {
	for len(code) > 0 {
		switch code[0] {
		case 0x66, 0x67, 0xf2, 0xf3, 0x64, 0x65:
			code = code[1:]
			continue
		case 0xf0, 0x26, 0x2e, 0x36, 0x3e:
			return ProbeRefused
		case 0xc4, 0xc5, 0x62:
			return ProbeUnsafe
		case 0xf4:
			return ProbeNever
		case 0x8f:
			if len(code) > 1 && code[1]&31 >= 8 {
				return ProbeUnsafe
			}
		}
		break
	}
	return CanProbe
}
