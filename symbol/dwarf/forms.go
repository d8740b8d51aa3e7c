package dwarf

import (
	"encoding/binary"
	"math"

	"culprit/symbol/window"
)

// What is read of DWARF (versions 2 to 5): tags, attributes and forms by their numbers (DWARF 5,
// section 7.5).
const (
	tagClass       = 0x02
	tagBlock       = 0x0b
	tagUnit        = 0x11
	tagStruct      = 0x13
	tagInlined     = 0x1d
	tagModule      = 0x1e
	tagCatch       = 0x25
	tagSubprogram  = 0x2e
	tagTry         = 0x32
	tagNamespace   = 0x39
	atSibling      = 0x01
	atName         = 0x03
	atLow          = 0x11
	atHigh         = 0x12
	atOrigin       = 0x31
	atSpecifies    = 0x47
	atRanges       = 0x55
	atLinkage      = 0x6e
	atStringsBase  = 0x72
	atAddrBase     = 0x73
	atRangesBase   = 0x74
	atLinkageOfOld = 0x2007
	atGNUAddrBase  = 0x2133

	formAddr        = 0x01
	formString      = 0x08
	formStrp        = 0x0e
	formRefAddr     = 0x10
	formRef1        = 0x11
	formRef2        = 0x12
	formRef4        = 0x13
	formRef8        = 0x14
	formRefUleb     = 0x15
	formIndirect    = 0x16
	formSecOffset   = 0x17
	formStrx        = 0x1a
	formAddrx       = 0x1b
	formLineStrp    = 0x1f
	formImplicit    = 0x21
	formRnglistx    = 0x23
	formStrx1       = 0x25
	formStrx3       = 0x27
	formStrx4       = 0x28
	formAddrx1      = 0x29
	formAddrx3      = 0x2b
	formAddrx4      = 0x2c
	formGNUAddr     = 0x1f01
	formGNUStr      = 0x1f02
	formData4       = 0x06
	formData8       = 0x07
	formData2       = 0x05
	formData1       = 0x0b
	formSdata       = 0x0d
	formUdata       = 0x0f
	formFlagPresent = 0x19
)

// A stream reads a section from an offset. Beyond its end it reads 0 and sets bad. It must not
// be used after another stream has read from the same window.
type stream struct {
	w    *window.Window
	b    []byte // from at on
	at   uint64
	bad  bool
	edge [2 * streamAhead]byte // what stands where two pages meet
}

// streamAhead is the longest number in bytes.
const streamAhead = 16

// seek goes to an offset.
func (s *stream) seek(at uint64) {
	s.at, s.bad, s.b = at, false, nil
}

// ahead returns the bytes of a number, fewer at the section's end.
func (s *stream) ahead() []byte {
	if len(s.b) >= streamAhead {
		return s.b
	}
	if s.bad || s.at >= s.w.Size() {
		s.bad, s.b = true, nil
		return nil
	}
	p := s.w.Page(s.at / window.PageSize)
	if p == nil {
		s.bad, s.b = true, nil
		return nil
	}
	s.b = p[s.at%window.PageSize:]
	if len(s.b) >= streamAhead || uint64(len(s.b)) == s.w.Size()-s.at {
		return s.b
	}
	n := copy(s.edge[:], s.b)
	if p = s.w.Page(s.at/window.PageSize + 1); p != nil {
		n += copy(s.edge[n:], p[:min(len(p), streamAhead)])
	}
	s.b = s.edge[:n]
	return s.b
}

func (s *stream) skip(n uint64) {
	if n <= uint64(len(s.b)) {
		s.b, s.at = s.b[n:], s.at+n
		return
	}
	if s.bad || n > s.w.Size()-min(s.at, s.w.Size()) {
		s.bad = true
		n = 0
	}
	s.b, s.at = nil, s.at+n
}

// fixed reads a number of n bytes, at most 8.
func (s *stream) fixed(n int) (v uint64) {
	b := s.ahead()
	if n > len(b) {
		s.bad = true
		return 0
	}
	switch n {
	case 1:
		v = uint64(b[0])
	case 2:
		v = uint64(binary.LittleEndian.Uint16(b))
	case 4:
		v = uint64(binary.LittleEndian.Uint32(b))
	case 8:
		v = binary.LittleEndian.Uint64(b)
	default:
		for i := range n {
			v |= uint64(b[i]) << (8 * i)
		}
	}
	s.b, s.at = s.b[n:], s.at+uint64(n)
	return v
}

func (s *stream) uleb() (v uint64) {
	for shift := 0; ; shift += 7 {
		b := s.ahead()
		if len(b) == 0 {
			return 0
		}
		s.b, s.at = s.b[1:], s.at+1
		if shift < 64 {
			v |= uint64(b[0]&0x7f) << shift
		}
		if b[0] < 0x80 {
			return v
		}
	}
}

// text reads up to a NUL; skipText skips it.
func (s *stream) text() string {
	out, ok := s.w.Text(s.at)
	if !ok {
		s.bad = true
		return ""
	}
	s.b = nil
	s.skip(uint64(len(out)) + 1)
	return out
}

func (s *stream) skipText() {
	for {
		b := s.ahead()
		if len(b) == 0 {
			return
		}
		for i, c := range b {
			if c == 0 {
				s.b, s.at = s.b[i+1:], s.at+uint64(i+1)
				return
			}
		}
		s.skip(uint64(len(b)))
	}
}

// A attribute is an attribute of an abbreviation.
type attribute struct {
	attr, form uint16
	implicit   int64
}

// A abbreviation is an abbreviation: the kind of an entry and its attributes.
type abbreviation struct {
	tag      uint32
	children bool
	fixed    int // bytes of all attributes; -1: it depends
	forms    []attribute
}

// abbreviations are the abbreviations of a unit, by number.
type abbreviations struct {
	low   []abbreviation // from 1 on
	high  map[uint64]abbreviation
	forms []attribute // of all
}

const (
	mostShapes = 1 << 14 // of a unit
	mostForms  = 1 << 8  // of an abbreviation
)

func (t *abbreviations) of(code uint64) *abbreviation {
	if code-1 < uint64(len(t.low)) {
		return &t.low[code-1]
	}
	if s, ok := t.high[code]; ok {
		return &s
	}
	return nil
}

// read reads the abbreviations at an offset of .debug_abbrev, up to the number last; 0: all. The
// sizes of addresses and offsets are the unit's. It replaces those read before.
func (t *abbreviations) read(s *stream, at uint64, u *unit, last uint64) *abbreviations {
	t.low, t.forms = t.low[:0], t.forms[:0]
	clear(t.high)
	s.seek(at)
	for n := 0; n < mostShapes; n++ {
		code := s.uleb()
		if code == 0 || s.bad {
			break
		}
		shape := abbreviation{tag: uint32(s.uleb()), children: s.fixed(1) != 0}
		first := len(t.forms)
		for {
			attr, form := s.uleb(), s.uleb()
			one := attribute{attr: uint16(min(attr, math.MaxUint16)),
				form: uint16(min(form, math.MaxUint16))}
			if form == formImplicit {
				one.implicit = s.sleb()
			}
			if attr == 0 && form == 0 || s.bad || len(t.forms)-first == mostForms {
				break
			}
			t.forms = append(t.forms, one)
			if size, ok := u.fixedSize(one.form); !ok {
				shape.fixed = -1
			} else if shape.fixed >= 0 {
				shape.fixed += size
			}
		}
		shape.forms = t.forms[first:]
		if code == uint64(len(t.low))+1 {
			t.low = append(t.low, shape)
		} else {
			if t.high == nil {
				t.high = map[uint64]abbreviation{}
			}
			t.high[code] = shape
		}
		if code == last {
			break
		}
	}
	return t
}

func (s *stream) sleb() (v int64) {
	for shift := 0; ; {
		b := s.ahead()
		if len(b) == 0 {
			return 0
		}
		s.b, s.at = s.b[1:], s.at+1
		if shift < 64 {
			v |= int64(b[0]&0x7f) << shift
		}
		if shift += 7; b[0] < 0x80 {
			if b[0]&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
}

// fixedSize returns how many bytes a form takes; !ok: that depends on its content, or the form is
// unknown.
func (u *unit) fixedSize(form uint16) (int, bool) {
	switch form {
	case formAddr:
		return int(u.address), true
	case formData1, 0x0c, formRef1, formStrx1, formAddrx1: // flag
		return 1, true
	case formData2, formRef2, 0x26, 0x2a:
		return 2, true
	case formStrx3, formAddrx3:
		return 3, true
	case formData4, formRef4, 0x1c, formStrx4, formAddrx4: // ref_sup4
		return 4, true
	case formData8, formRef8, 0x20, 0x24: // ref_sig8, ref_sup8
		return 8, true
	case 0x1e: // data16
		return 16, true
	// strp_sup, GNU_ref_alt, GNU_strp_alt
	case formStrp, formLineStrp, formSecOffset, 0x1d, 0x1f20, 0x1f21:
		return int(u.wide), true
	case formRefAddr:
		if u.version <= 2 {
			return int(u.address), true
		}
		return int(u.wide), true
	case formFlagPresent, formImplicit:
		return 0, true
	}
	return 0, false
}

// skipForm skips an attribute.
func (s *stream) skipForm(u *unit, form uint16) {
	for range 4 { // an indirect one may name another
		if n, ok := u.fixedSize(form); ok {
			s.skip(uint64(n))
			return
		}
		switch form {
		case 0x03: // block2
			s.skip(s.fixed(2))
		case 0x04: // block4
			s.skip(s.fixed(4))
		case 0x09, 0x18: // block, exprloc
			s.skip(s.uleb())
		case 0x0a: // block1
			s.skip(s.fixed(1))
		case formString:
			s.skipText()
		// loclistx
		case formSdata, formUdata, formRefUleb, formStrx, formAddrx, 0x22, formRnglistx,
			formGNUAddr, formGNUStr:
			s.uleb()
		case formIndirect:
			form = uint16(min(s.uleb(), math.MaxUint16))
			continue
		default:
			s.bad = true
		}
		return
	}
	s.bad = true
}
