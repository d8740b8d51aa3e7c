package profile

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// Decoding JSON can take a hundred times its bytes: null, in a list of calls is a whole call. So
// the readers compute what a text decodes to before they decode it.

// unmarshal decodes JSON that is part of an input, and charges what it takes. The error is that of
// encoding/json.
func (m *meter) unmarshal(raw []byte, into any) error {
	if m != nil && json.Valid(raw) {
		c := jsonCost{raw: raw, m: m}
		c.value(reflect.TypeOf(into).Elem())
	}
	return json.Unmarshal(raw, into)
}

// A jsonCost walks a valid JSON text beside the type that it is decoded to, and charges a meter
// with the bytes that decoding allocates.
type jsonCost struct {
	raw []byte
	at  int
	m   *meter
}

// The bytes that decoding allocates beside the elements.
const (
	jsonEntry  = 64 // of a map, beside its key and its value
	jsonScalar = 16 // an allocated number, or the least that an allocation takes
	jsonGrowth = 2  // slices grow by factors, and old ones remain until they are collected
)

// table: types that decode themselves or keep their text
var (
	rawType         = reflect.TypeFor[json.RawMessage]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
)

func (c *jsonCost) space() {
	for c.at < len(c.raw) && strings.IndexByte(" \t\r\n", c.raw[c.at]) >= 0 {
		c.at++
	}
}

// value passes one value that is decoded to t; nil: it is skipped.
func (c *jsonCost) value(t reflect.Type) {
	c.space()
	from := c.at
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
		c.m.add(int(t.Size()) + jsonScalar)
	}
	if t != nil && (t == rawType || reflect.PointerTo(t).Implements(unmarshalerType)) {
		c.value(nil)
		c.m.add(c.at - from + jsonScalar)
		return
	}
	if c.at == len(c.raw) {
		return
	}
	switch c.raw[c.at] {
	case '{':
		c.object(t)
	case '[':
		c.list(t)
	case '"':
		n := len(c.text())
		if t != nil && t.Kind() == reflect.String || t != nil && t.Kind() == reflect.Interface {
			c.m.add(n + jsonScalar)
		}
	default:
		for c.at < len(c.raw) && strings.IndexByte(",]} \t\r\n", c.raw[c.at]) < 0 {
			c.at++
		}
		if t != nil && t.Kind() == reflect.String || t != nil && t.Kind() == reflect.Interface {
			c.m.add(c.at - from + jsonScalar)
		}
	}
	c.m.visit(c.at - from)
}

// text passes a string and returns its bytes, with escapes.
func (c *jsonCost) text() []byte {
	c.at++
	from := c.at
	for c.at < len(c.raw) && c.raw[c.at] != '"' {
		if c.raw[c.at] == '\\' {
			c.at++
		}
		c.at++
	}
	c.at = min(c.at+1, len(c.raw))
	return c.raw[from : c.at-1]
}

// list passes a list.
func (c *jsonCost) list(t reflect.Type) {
	var element reflect.Type
	size := 0
	switch {
	case t != nil && t.Kind() == reflect.Slice:
		element = t.Elem()
		size = jsonGrowth * int(element.Size())
	case t != nil && t.Kind() == reflect.Interface:
		element, size = t, jsonGrowth*int(t.Size())
	}
	c.at++
	for c.more(']') {
		c.m.add(size)
		c.value(element)
	}
}

// more passes blanks and a comma, and reports whether another element follows; it passes the end.
func (c *jsonCost) more(end byte) bool {
	c.space()
	if c.at < len(c.raw) && c.raw[c.at] == ',' {
		c.at++
		c.space()
	}
	if c.at < len(c.raw) && c.raw[c.at] != end {
		return true
	}
	c.at++
	return false
}

// object passes an object.
func (c *jsonCost) object(t reflect.Type) {
	c.at++
	for c.more('}') {
		key := c.text()
		c.space()
		c.at++ // the colon
		var field reflect.Type
		switch {
		case t == nil:
		case t.Kind() == reflect.Struct:
			field = jsonField(t, key)
		case t.Kind() == reflect.Map:
			field = t.Elem()
			c.m.add(jsonEntry + 2*int(field.Size()) + len(key))
		case t.Kind() == reflect.Interface:
			field = t
			c.m.add(jsonEntry + 2*int(field.Size()) + len(key))
		}
		c.value(field)
	}
}

// jsonField returns the type of the field of a struct that a key is decoded to; nil: none.
func jsonField(t reflect.Type, key []byte) reflect.Type {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			if inner := jsonField(f.Type, key); inner != nil {
				return inner
			}
		case name == "-":
		case name == "" && strings.EqualFold(f.Name, string(key)),
			name != "" && bytes.EqualFold([]byte(name), key):
			return f.Type
		}
	}
	return nil
}
