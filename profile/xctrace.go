package profile

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
)

// readXCTrace reads a time profile of xctrace export: rows with a backtrace each, innermost frame
// first. A repeated backtrace or frame is a reference to its number.
//
//	<row><backtrace id="10"><frame id="11" name="foo" addr="0x18d3df0f1"/><frame
//
// ref="9"/></backtrace></row>
//
//	<row><backtrace ref="10"/></row>
func readXCTrace(r io.Reader, o Options) (*Tree, error) {
	limited := &io.LimitedReader{R: r, N: maxProfile + 1}
	d := xml.NewDecoder(limited)
	b := o.builder()
	frames, stacks := map[string]uint32{}, map[string][]uint32{} // by number
	var stack []uint32
	inside, ended, id := false, false, ""
	wrong := func(format string, args ...any) error {
		line, _ := d.InputPos()
		return &ParseError{Line: line, What: "xctrace: " + fmt.Sprintf(format, args...)}
	}
	rows := 0
	for {
		token, err := d.RawToken()
		if err != nil {
			var syntax *xml.SyntaxError
			switch {
			case limited.N <= 0:
				return nil, &ParseError{Byte: maxProfile, What: "a profile of more than 2 GB"}
			case errors.Is(err, io.EOF) && ended:
				if rows == 0 {
					return nil, wrong("no backtraces in it")
				}
				return b.Tree(), nil
			case errors.Is(err, io.EOF):
				return nil, wrong("the input is cut off")
			case errors.As(err, &syntax):
				return nil, &ParseError{Line: syntax.Line, What: "XML: " + syntax.Msg}
			}
			return nil, fmt.Errorf("read: %w", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			switch e.Name.Local {
			case "backtrace":
				if ref, ok := attribute(e, "ref"); ok {
					known, there := stacks[ref]
					if !there {
						return nil, wrong("a reference to an unknown backtrace, %.20q", ref)
					}
					b.Stack(known, 1)
					rows++
					continue
				}
				inside, stack = true, stack[:0]
				id, _ = attribute(e, "id")
			case "frame":
				if !inside {
					continue
				}
				if ref, ok := attribute(e, "ref"); ok {
					f, there := frames[ref]
					if !there {
						return nil, wrong("a reference to an unknown frame, %.20q", ref)
					}
					stack = append(stack, f)
					continue
				}
				name, _ := attribute(e, "name")
				plain := []byte(string(withoutRust([]byte(name))))
				f := b.Function(replaced(plain, ';', ':'), nil, Code)
				if n, ok := attribute(e, "id"); ok {
					b.meter.add(jsonEntry + len(n))
					frames[n] = f
				}
				stack = append(stack, f)
			}
		case xml.EndElement:
			ended = ended || e.Name.Local == xctraceRoot
			if e.Name.Local != "backtrace" || !inside {
				continue
			}
			inside = false
			slices.Reverse(stack)
			b.meter.add(jsonEntry + len(id) + 4*len(stack))
			stacks[id] = slices.Clone(stack)
			b.Stack(stack, 1)
			rows++
		}
	}
}

const xctraceRoot = "trace-query-result"

func attribute(e xml.StartElement, name string) (string, bool) {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value, true
		}
	}
	return "", false
}
