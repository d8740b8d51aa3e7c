package v8

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"
)

// The bits of the instance type of a string (instance-type.h).
const (
	firstNoString  = 0x80
	oneByte        = 8
	uncached       = 0x10 // of an external string: the address of its bytes is not known
	representation = 7
	seqString      = 0
	consString     = 1
	externalString = 2
	slicedString   = 3
	thinString     = 5
)

const (
	mostParts  = 256 // strings that one string consists of
	mostSliced = 32  // strings in one another
)

// A part is a range of characters of a string that has them in one place.
type part struct {
	at     uint64 // of its first character
	width  uint64 // bytes of a character
	length uint64 // characters
}

// text reads a string; "": there is none, or it is longer than mostText.
func (r *Reader) text(at uint64) string {
	var out strings.Builder
	stack, parts := []uint64{at}, 0
	for len(stack) > 0 {
		at = stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if parts++; parts > mostParts {
			return ""
		}
		if first, second, ok := r.cons(at); ok {
			stack = append(stack, second, first)
			continue
		}
		p, ok := r.flat(at)
		if !ok || p.length*p.width > mostText || out.Len() > mostText {
			return ""
		}
		text, ok := r.chars(p)
		if !ok {
			return ""
		}
		out.WriteString(text)
	}
	if out.Len() > 3*mostText {
		return ""
	}
	return out.String()
}

// cons returns the two strings that a string consists of; !ok: it is another kind of string.
func (r *Reader) cons(at uint64) (first, second uint64, ok bool) {
	kind, ok := r.typeOf(at)
	if !ok || kind >= firstNoString || kind&representation != consString {
		return 0, 0, false
	}
	first, ok = r.word(at - tag + uint64(r.at[consFirst]))
	second, also := r.word(at - tag + uint64(r.at[consSecond]))
	return first, second, ok && also
}

// flat returns the characters of a string that has them in one place, or whose first part does: V8
// makes one string of a string of two before it reads it.
func (r *Reader) flat(at uint64) (p part, ok bool) {
	length, ok := r.length(at)
	if !ok {
		return p, false
	}
	from := uint64(0)
	for range mostSliced {
		kind, ok := r.typeOf(at)
		has, also := r.length(at)
		if !ok || !also || kind >= firstNoString || from > has || length > has-from {
			return p, false
		}
		object := at - tag
		switch kind & representation {
		case seqString, externalString:
			p = part{object + uint64(r.at[twoByteChars]), 2, length}
			if kind&oneByte != 0 {
				p = part{object + uint64(r.at[oneByteChars]), 1, length}
			}
			if kind&representation == externalString {
				if p.at, ok = r.word(object + uint64(r.at[externalData])); !ok ||
					kind&uncached != 0 {
					return p, false
				}
			}
			p.at += p.width * from
			return p, true
		case consString:
			at, ok = r.word(object + uint64(r.at[consFirst]))
		case thinString:
			at, ok = r.word(object + uint64(r.at[thinActual]))
		case slicedString:
			var w uint64
			if w, ok = r.word(object + uint64(r.at[slicedOffset])); ok {
				n, isNumber := number(w)
				if !isNumber || n < 0 {
					return p, false
				}
				from += uint64(n)
				at, ok = r.word(object + uint64(r.at[slicedParent]))
			}
		default:
			return p, false
		}
		if !ok {
			return p, false
		}
	}
	return p, false
}

// length returns how many characters a string has.
func (r *Reader) length(at uint64) (n uint64, ok bool) {
	if at&tagMask != tag {
		return 0, false
	}
	b, ok := r.read(at-tag+uint64(r.at[stringLength]), 4)
	if !ok {
		return 0, false
	}
	n = uint64(binary.LittleEndian.Uint32(b))
	return n, n <= mostPosition
}

// chars reads the characters of a short part.
func (r *Reader) chars(p part) (text string, ok bool) {
	n := int(p.length * p.width)
	if n == 0 {
		return "", true
	}
	if r.left < n {
		return "", false
	}
	r.left -= n
	b, ok := r.read(p.at, n)
	if !ok {
		return "", false
	}
	var units []uint16
	for at := 0; at < n; at += int(p.width) {
		if p.width == 1 {
			units = append(units, uint16(b[at]))
		} else {
			units = append(units, binary.LittleEndian.Uint16(b[at:]))
		}
	}
	return string(utf16.Decode(units)), true
}
