package ruby

// Offsets in RClass and its members.
const (
	classSuper     = 16
	classExtension = 24 // up to 3.1: a pointer to other members
	classVariable  = 8  // in them: the table of variables
	classAttached  = 128
	classPath      = 152
)

// className returns the name of a class; "": it has none, or it is not known.
func (r *Reader) className(class uint64) string {
	var at uint64
	switch r.of.Classes {
	case classMembers:
		m, ok := r.read(class+classPath, 8)
		if !ok {
			return ""
		}
		at = word(m, 0)
	case classVariables:
		if r.pathKey == 0 {
			r.pathKey = r.findPathKey(class)
		}
		if r.pathKey == 0 {
			return ""
		}
		r.variables(class, func(key, value uint64) bool {
			if key == r.pathKey {
				at = value
			}
			return at == 0
		})
	}
	name, _ := r.text(at, mostText) // "": the class has no name
	return name
}

// attached returns the class whose singleton class is at an address.
func (r *Reader) attached(class uint64) (of uint64, ok bool) {
	is := func(at uint64) bool { // its class is the singleton class
		if _, ok := r.class(at); !ok {
			return false
		}
		m, ok := r.read(at+8, 8)
		return ok && word(m, 0) == class
	}
	switch r.of.Classes {
	case classMembers:
		m, ok := r.read(class+classAttached, 8)
		if !ok {
			return 0, false
		}
		of = word(m, 0)
		return of, is(of)
	case classVariables:
		r.variables(class, func(_, value uint64) bool {
			if is(value) {
				of = value
			}
			return of == 0
		})
	}
	return of, of != 0
}

// findPathKey returns the number of the variable that has the name of a class; 0: it is not found.
// Every class leads to BasicObject, which has no other variable with its name.
func (r *Reader) findPathKey(class uint64) uint64 {
	const root = "BasicObject"
	if m, ok := r.read(class, 16); ok && word(m, 0)&typeMask == typeModule {
		class = word(m, 8) // Module, or a singleton class below it
	}
	for range mostSupers {
		m, ok := r.read(class, classSuper+8)
		if !ok {
			return 0
		}
		super := word(m, classSuper)
		if super == 0 {
			break
		}
		class = super
	}
	key := uint64(0)
	r.variables(class, func(k, value uint64) bool {
		if name, ok := r.text(value, mostText); ok && name == root {
			key = k
		}
		return key == 0
	})
	return key
}

// variables calls each with the variables of a class, until it returns false. It is a st_table:
//
//	| u8 u8 u8 | u32 | u64 type | u64 entries | u64 bins | u64 start | u64 bound | u64 entries |
//
// of entries with u64 hash, u64 key, u64 value.
func (r *Reader) variables(class uint64, each func(key, value uint64) bool) {
	const start, bound, entries, size = 32, 40, 48, 24
	m, ok := r.read(class+classExtension, 8)
	if !ok {
		return
	}
	if m, ok = r.read(word(m, 0)+classVariable, 8); !ok {
		return
	}
	if m, ok = r.read(word(m, 0), entries+8); !ok {
		return
	}
	from, to, at := word(m, start), word(m, bound), word(m, entries)
	if from > to || to > 1<<20 {
		return
	}
	for i := from; i < min(to, from+mostVariables); i++ {
		if m, ok = r.read(at+size*i, size); !ok {
			return
		}
		if key := word(m, 8); word(m, 0) != ^uint64(0) && !each(key, word(m, 16)) {
			return
		}
	}
}
