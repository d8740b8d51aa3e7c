package profile

import (
	"unsafe"

	"github.com/google/pprof/profile"
)

// chargePProf charges a meter with the bytes that package profile allocates for a profile: a
// location's number is a byte of the input, and then an index and a pointer; an inlined line of
// four bytes is a struct. A damaged input is charged up to the damage.
func chargePProf(m *meter, in []byte) {
	const (
		list  = 2 // slices grow by factors, and old ones remain until they are collected
		entry = 96
	)
	sizes := map[int]int{ // by field of a Profile: see pprofdetect.go
		2: int(unsafe.Sizeof(profile.Sample{})), 3: int(unsafe.Sizeof(profile.Mapping{})),
		4: int(unsafe.Sizeof(profile.Location{})), 5: int(unsafe.Sizeof(profile.Function{})),
	}
	top := &wire{b: in, all: len(in)}
	for len(top.b) > 0 {
		field, kind, inner, err := top.next()
		if err != nil {
			return
		}
		if kind != 2 {
			m.add(list * 8) // a comment
			continue
		}
		m.add(list*16 + sizes[field])
		switch field {
		case 2, 4:
		case 13:
			m.add(list * 8 * len(inner)) // packed comments
			continue
		default:
			m.add(len(inner))
			continue
		}
		w := &wire{b: inner, all: len(inner)}
		for len(w.b) > 0 {
			number, kind, packed, err := w.next()
			switch {
			case err != nil:
				return
			case field == 2 && number == 3: // a label, with its map
				m.add(2*entry + list*16)
			case field == 4 && number == 4:
				m.add(list * int(unsafe.Sizeof(profile.Line{})))
			case kind == 2:
				m.add(list * 16 * numbers(packed))
			default:
				m.add(list * 16)
			}
		}
	}
}

// numbers returns how many numbers a packed list contains.
func numbers(packed []byte) (n int) {
	for _, b := range packed {
		if b < 0x80 {
			n++
		}
	}
	return n
}
