package jfr

import (
	"slices"
	"strings"
)

// An element is a node of the metadata: a name, attributes, and children.
type element struct {
	name     string
	attrs    [][2]string
	children []element
}

func (e *element) attr(name string) string {
	for _, a := range e.attrs {
		if a[0] == name {
			return a[1]
		}
	}
	return ""
}

// A class is the type of a value, in the order of its fields.
type class struct {
	id     int64
	name   string
	kind   kind
	fields []field
	size   int  // number of primitive values in it, if lists have one element each
	known  bool // size was computed
	open   bool // size is being computed
}

// A kind is the encoding of a value.
type kind uint8

const (
	structured kind = iota
	flag            // one byte
	short           // integers, compressed or of 2, 4 and 8 bytes
	integer
	long
	single // floating point
	double
	text
)

// kinds are the types that are no structures.
//
// table: names of the types in jdk.jfr.internal.Type
var kinds = map[string]kind{
	"boolean": flag, "byte": flag, "char": short, "short": short, "int": integer, "long": long,
	"float": single, "double": double, "java.lang.String": text,
}

// A field is a field of a class.
type field struct {
	name     string
	of       *class
	typeID   int64
	constant bool // it has the key of a constant
	list     bool
	unit     string // of the annotation: a unit of Timespan, BYTES, or TIMESTAMP; "": none
}

// The limits of metadata.
const (
	maxElements = 1 << 18
	maxNested   = 64
	maxValues   = 4096 // primitive values in a class
)

// metadataBytes is what an element takes at most, beside its strings, which are shared.
const metadataBytes = 256

// metadata parses the event of the types, whose first fields were read.
//
//	time long, duration long, ID long, n int, n x string, element
//	element: name, n x { name, value }, n x element; names and values are indexes of strings
func (c *chunk) metadata(r *cursor) error {
	r.long(8)
	r.long(8)
	r.long(8)
	n := r.count()
	c.charge(32*n + r.end - r.at)
	texts := make([]string, 0, n)
	for range n {
		texts = append(texts, r.text(1)) // there are no constants yet
	}
	m := &metadataReader{r: r, texts: texts}
	root := m.element(0)
	if r.err != nil {
		return r.err
	}
	c.classes = map[int64]*class{}
	annotations := map[string]string{} // unit by the ID of the annotation's type
	m.walk(&root, func(e *element) {
		if e.name == "class" {
			c.class(e, annotations)
		}
	})
	m.walk(&root, func(e *element) {
		if e.name == "class" {
			c.fields(e, annotations)
		}
	})
	return c.link(r)
}

// A metadataReader reads elements.
type metadataReader struct {
	r     *cursor
	texts []string
	count int
}

func (m *metadataReader) text() string {
	i := m.r.int()
	if i < 0 || i >= int64(len(m.texts)) {
		m.r.fail("metadata refer to string %d of %d", i, len(m.texts))
		return ""
	}
	return m.texts[i]
}

func (m *metadataReader) element(depth int) (e element) {
	if m.count++; m.count > maxElements || depth > maxNested {
		m.r.fail("metadata of more than %d elements, or nested more than %d times", maxElements,
			maxNested)
		return e
	}
	m.r.c.charge(metadataBytes)
	e.name = m.text()
	for range m.r.count() {
		if m.r.err != nil {
			return e
		}
		m.r.c.charge(2 * 32)
		e.attrs = append(e.attrs, [2]string{m.text(), m.text()})
	}
	for range m.r.count() {
		if m.r.err != nil {
			return e
		}
		e.children = append(e.children, m.element(depth+1))
	}
	return e
}

func (m *metadataReader) walk(e *element, visit func(*element)) {
	visit(e)
	for i := range e.children {
		m.walk(&e.children[i], visit)
	}
}

// class adds a class without its fields.
func (c *chunk) class(e *element, annotations map[string]string) {
	id, ok := parseID(e.attr("id"))
	if !ok {
		return
	}
	c.charge(metadataBytes)
	name := e.attr("name")
	c.classes[id] = &class{id: id, name: name, kind: kinds[name]}
	switch name {
	case "jdk.jfr.Timespan", "jdk.jfr.DataAmount", "jdk.jfr.Timestamp":
		annotations[e.attr("id")] = strings.TrimPrefix(name, "jdk.jfr.")
	}
}

// fields adds the fields of a class.
func (c *chunk) fields(e *element, annotations map[string]string) {
	id, ok := parseID(e.attr("id"))
	k := c.classes[id]
	if !ok || k == nil || len(k.fields) > 0 {
		return
	}
	for i := range e.children {
		child := &e.children[i]
		if child.name != "field" {
			continue
		}
		of, ok := parseID(child.attr("class"))
		if !ok {
			of = -1
		}
		f := field{name: child.attr("name"), typeID: of,
			constant: child.attr("constantPool") == "true"}
		f.list = child.attr("dimension") == "1"
		for k := range child.children {
			a := &child.children[k]
			value := a.attr("value")
			if value == "" {
				value = a.attr("value-0")
			}
			switch kind := annotations[a.attr("class")]; {
			case a.name != "annotation" || kind == "":
			case kind == "Timestamp":
				f.unit = "TIMESTAMP"
			case value != "":
				f.unit = value
			case kind == "Timespan":
				f.unit = "NANOSECONDS"
			default:
				f.unit = "BYTES"
			}
		}
		c.charge(metadataBytes)
		k.fields = append(k.fields, f)
	}
}

// link sets the types of all fields, and refuses classes that contain themselves or very much.
func (c *chunk) link(r *cursor) error {
	for _, k := range c.classes {
		for i := range k.fields {
			f := &k.fields[i]
			if f.of = c.classes[f.typeID]; f.of == nil && !f.constant {
				r.fail("the field %s.%s has an unknown type", k.name, f.name)
				return r.err
			}
		}
		if k.kind != structured {
			k.fields = nil
		}
	}
	c.byName = make(map[string]*class, len(c.classes))
	for _, k := range c.classes {
		c.byName[k.name] = k
		if k.measure() > maxValues {
			r.fail("the type %.60q contains itself, or more than %d values", k.name, maxValues)
			return r.err
		}
	}
	return nil
}

// measure returns the size of a class, and drops its fields that take no bytes: all others take at
// least one, so no value takes more time than its bytes allow.
func (k *class) measure() int {
	switch {
	case k.open:
		return maxValues + 1
	case k.known:
		return k.size
	case k.kind != structured:
		k.size, k.known = 1, true
		return 1
	}
	k.open = true
	kept := k.fields[:0]
	n := 0
	for _, f := range k.fields {
		size := 1
		if !f.constant {
			size = f.of.measure()
		}
		if size == 0 && !f.list {
			continue
		}
		kept = append(kept, f)
		n = min(n+max(1, size), maxValues+1)
	}
	k.fields, k.size, k.open, k.known = kept, n, false, true
	return n
}

// parseID parses a decimal number.
func parseID(s string) (n int64, ok bool) {
	if len(s) == 0 || len(s) > 18 {
		return 0, false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// field returns the field of a name; nil: there is none.
func (k *class) field(name string) *field {
	i := slices.IndexFunc(k.fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	return &k.fields[i]
}

// skip passes a value of a class.
func (k *class) skip(r *cursor) {
	switch k.kind {
	case structured:
		for i := range k.fields {
			k.fields[i].skip(r)
		}
	case flag:
		r.bytes(1)
	case short:
		r.long(2)
	case integer:
		r.long(4)
	case long:
		r.long(8)
	case single:
		r.bytes(4)
	case double:
		r.bytes(8)
	case text:
		r.skipText()
	}
}

// skip passes the value of a field.
func (f *field) skip(r *cursor) {
	n := 1
	if f.list {
		n = r.count()
	}
	if !f.constant && f.of.size == 0 {
		return
	}
	for range n {
		if r.err != nil {
			return
		}
		if f.constant {
			r.long(8)
		} else {
			f.of.skip(r)
		}
	}
}

// number reads the value of a field; 0 and false when it is no number.
func (f *field) number(r *cursor) (float64, bool) {
	if f.list || f.constant {
		f.skip(r)
		return 0, false
	}
	switch f.of.kind {
	case short:
		v := r.long(2)
		if f.of.name == "short" {
			return float64(int16(v)), true
		}
		return float64(uint16(v)), true
	case integer:
		return float64(int32(r.long(4))), true
	case long:
		return float64(r.long(8)), true
	case single:
		return r.float32(), true
	case double:
		return r.float64(), true
	}
	f.skip(r)
	return 0, false
}
