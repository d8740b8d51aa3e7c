package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"culprit/kernel/proc"

	"github.com/cilium/ebpf/btf"
)

// TypeKind is the kind of a type in BTF, numbered as in linux/btf.h.
type TypeKind uint8

// The kinds that are asked for by name.
const (
	KindTypedef TypeKind = 8
	KindFunc    TypeKind = 12
)

// ErrTypes is the error of bytes that are not BTF.
var ErrTypes = errors.New("not BTF")

// TypeNames are the names in the BTF of the kernel or of a module. No type is decoded, so listing
// tens of thousands of functions takes some milliseconds.
type TypeNames struct {
	module string
	raw    []byte     // the types
	text   []byte     // the strings
	base   *TypeNames // of a module: the kernel's
	first  uint32     // ID of the first type
	next   uint32     // ID behind the last one
	strs   uint32     // offset of the first own string
}

// TypeNames reads the names of the kernel ("" or "vmlinux") or of a module. It is cheaper than
// Kernel and Module and shares nothing with them. The errors are those of Kernel.
func (t *Types) TypeNames(module string) (*TypeNames, error) {
	if module == "" {
		module = "vmlinux"
	}
	if strings.ContainsRune(module, '/') {
		return nil, typesErr(module, fs.ErrNotExist)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.typeNames(module)
}

func (t *Types) typeNames(module string) (*TypeNames, error) {
	if t.names[module] != nil {
		return t.names[module], nil
	}
	var base *TypeNames
	if module != "vmlinux" {
		var err error
		if base, err = t.typeNames("vmlinux"); err != nil {
			return nil, err
		}
	}
	size := int64(0)
	if st, err := os.Stat(t.root.InSys("kernel/btf/" + module)); err == nil {
		size = min(st.Size(), proc.MaxFile)
	}
	// one more, where the end is seen
	b, err := proc.ReadSys(t.root, "kernel/btf/"+module, make([]byte, 0, size+1))
	if err != nil {
		return nil, typesErr(module, err)
	}
	names, err := ParseTypeNames(b, base)
	if err != nil {
		return nil, typesErr(module, err)
	}
	names.module = module
	if t.names == nil {
		t.names = map[string]*TypeNames{}
	}
	t.names[module] = names
	return names, nil
}

// ParseTypeNames parses the header of BTF and keeps b. base has the kernel's names when b is of a
// module. The error is ErrTypes. The layout (linux/btf.h), in the machine's byte order:
//
//	0       2         3       4         8          12         16        20
//	| magic | version | flags | hdr_len | type_off | type_len | str_off | str_len |
func ParseTypeNames(b []byte, base *TypeNames) (*TypeNames, error) {
	if len(b) < 24 || native.Uint16(b) != 0xeb9f {
		return nil, ErrTypes
	}
	head := uint64(native.Uint32(b[4:]))
	cut := func(at int) ([]byte, error) {
		from := head + uint64(native.Uint32(b[at:]))
		to := from + uint64(native.Uint32(b[at+4:]))
		if to > uint64(len(b)) {
			return nil, fmt.Errorf("%w: cut short", ErrTypes)
		}
		return b[from:to], nil
	}
	n := &TypeNames{module: "vmlinux", base: base, first: 1}
	var err error
	if n.raw, err = cut(8); err != nil {
		return nil, err
	}
	if n.text, err = cut(16); err != nil {
		return nil, err
	}
	if base != nil {
		n.first, n.strs = base.next, base.strs+uint32(len(base.text))
	}
	n.next = n.first
	// Counts them, and finds out whether they are whole.
	return n, n.walk(func(uint32, []byte) { n.next++ })
}

// walk calls f with the ID and the head of each type: name_off, info, size_or_type.
func (n *TypeNames) walk(f func(id uint32, head []byte)) error {
	id := n.first
	for b := n.raw; len(b) > 0; id++ {
		if len(b) < 12 {
			return fmt.Errorf("%w: cut short", ErrTypes)
		}
		info := native.Uint32(b[4:])
		size := 12 + typeTail(TypeKind(info>>24&0x1f), int(info&0xffff))
		if size < 12 || size > len(b) {
			return fmt.Errorf("%w: type %d", ErrTypes, id)
		}
		f(id, b)
		b = b[size:]
	}
	return nil
}

// typeTail returns how many bytes follow the head of a type; negative for an unknown kind.
func typeTail(kind TypeKind, vlen int) int {
	switch kind {
	case 1, 14, 17: // INT, VAR, DECL_TAG
		return 4
	// PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT, TYPE_TAG
	case 2, 7, 8, 9, 10, 11, 12, 16, 18:
		return 0
	case 3: // ARRAY
		return 12
	case 4, 5, 15, 19: // STRUCT, UNION, DATASEC, ENUM64
		return vlen * 12
	case 6, 13: // ENUM, FUNC_PROTO
		return vlen * 8
	}
	return -13
}

// Each calls f with the ID and name of each type of a kind, in the order of the IDs. The names stay
// valid.
func (n *TypeNames) Each(kind TypeKind, f func(id btf.TypeID, name string)) {
	_ = n.walk(func(id uint32, head []byte) { // it was whole when it was parsed
		if TypeKind(native.Uint32(head[4:])>>24&0x1f) != kind {
			return
		}
		if name := n.name(native.Uint32(head)); name != "" {
			f(btf.TypeID(id), name)
		}
	})
}

// Find returns the IDs of the types of a kind with this name: none, one, or several that differ in
// their source.
func (n *TypeNames) Find(kind TypeKind, name string) []btf.TypeID {
	offsets := map[uint32]bool{}
	for on := n; on != nil && name != ""; on = on.base {
		whole := []byte(name + "\x00") // which may be the end of a longer string
		for at := 0; ; at++ {
			i := bytes.Index(on.text[at:], whole)
			if i < 0 {
				break
			}
			at += i
			offsets[on.strs+uint32(at)] = true
		}
	}
	if len(offsets) == 0 {
		return nil
	}
	var ids []btf.TypeID
	_ = n.walk(func(id uint32, head []byte) { // it was whole when it was parsed
		if TypeKind(native.Uint32(head[4:])>>24&0x1f) == kind && offsets[native.Uint32(head)] {
			ids = append(ids, btf.TypeID(id))
		}
	})
	return ids
}

// name returns the string at an offset; "" when there is none.
func (n *TypeNames) name(off uint32) string {
	if off < n.strs {
		return n.base.name(off)
	}
	if off -= n.strs; uint64(off) >= uint64(len(n.text)) {
		return ""
	}
	b := n.text[off:]
	end := bytes.IndexByte(b, 0)
	if end < 0 {
		return ""
	}
	return unsafe.String(unsafe.SliceData(b), end)
}
