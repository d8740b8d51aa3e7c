package format

import (
	"fmt"
	"math"
	"strings"
)

// Printf appends the output of a format with arguments: for each conversion the widths written as
// *, then the value. It returns an error for a conversion without a value of its type; lang/check
// refuses such programs.
func (s *Style) Printf(dst []byte, f *Format, args []Value) ([]byte, error) {
	return s.print(dst, f, &arguments{values: args}, nil, nil)
}

// Printa appends the output of a format with aggregations, once per key. %@ conversions take the
// values of the aggregations in their order; when there are more conversions, the last value
// repeats. Other conversions take the elements of the key. It sets Printed. It returns an error for
// a conversion without a value of its type.
func (s *Style) Printa(dst []byte, f *Format, all ...*Aggregation) ([]byte, error) {
	var err error
	if len(all) == 1 {
		for _, r := range s.sorted(all[0]) {
			if dst, err = s.print(dst, f, &arguments{values: r.Key}, all,
				[][]int64{r.Data}); err != nil {
				return dst, err
			}
			all[0].Printed = true
		}
		return dst, nil
	}
	for _, r := range s.join(all) {
		if dst, err = s.print(dst, f, &arguments{values: r.key}, all, r.data); err != nil {
			return dst, err
		}
		for _, a := range all {
			a.Printed = true
		}
	}
	return dst, nil
}

// Addresses returns the indexes of the values that %a and %A print, among the arguments of a printf
// or the elements of a printa's key. The caller must resolve those addresses into the Text of the
// values.
func (f *Format) Addresses() (kernel, user []int) {
	n := 0
	for i := range f.Conversions {
		c := &f.Conversions[i]
		for _, star := range []bool{c.WidthArg, c.PrecisionArg} {
			if star {
				n++
			}
		}
		if c.Aggregation || c.Want == Nothing {
			continue
		}
		switch c.Want {
		case Symbol:
			kernel = append(kernel, n)
		case UserSymbol:
			user = append(user, n)
		}
		n++
	}
	return kernel, user
}

// arguments returns values in their order.
type arguments struct{ values []Value }

func (a *arguments) next(c *Conversion, what string) (Value, error) {
	if len(a.values) == 0 {
		return Value{}, fmt.Errorf("no %s for the conversion %%%s", what, c.Name)
	}
	v := a.values[0]
	a.values = a.values[1:]
	return v, nil
}

// number returns a width or precision, at most MaxWidth.
func (a *arguments) number(c *Conversion, what string) (int, error) {
	v, err := a.next(c, what)
	if err != nil {
		return 0, err
	}
	if v.Kind != Int {
		return 0, fmt.Errorf("the %s of the conversion %%%s is no integer", what, c.Name)
	}
	n := int64(int32(v.signed()))
	return int(max(-MaxWidth, min(n, MaxWidth))), nil
}

func (s *Style) print(
	dst []byte, f *Format, args *arguments, aggs []*Aggregation, data [][]int64,
) ([]byte, error) {
	agg := 0
	for i := range f.Conversions {
		c := &f.Conversions[i]
		dst = append(dst, c.Before...)
		if c.Want == Nothing {
			dst = append(dst, '%')
			continue
		}
		out := field{
			alternate: c.Alternate,
			zero:      c.Zero,
			left:      c.Left,
			plus:      c.Plus,
			space:     c.Space,
			width:     c.Width,
			precision: c.Precision,
		}
		if c.Group {
			out.group = s.Group
		}
		var err error
		if c.WidthArg {
			if out.width, err = args.number(c, "width"); err != nil {
				return dst, err
			}
			if out.width < 0 {
				out.left, out.width = true, -out.width
			}
		}
		if c.PrecisionArg {
			if out.precision, err = args.number(c, "precision"); err != nil {
				return dst, err
			}
		}
		if c.Aggregation {
			if len(aggs) == 0 {
				return dst, fmt.Errorf("no aggregation for the conversion %%@%s", c.Name)
			}
			dst, err = s.aggregated(dst, c, out, aggs[agg], data[agg])
			agg = min(agg+1, len(aggs)-1)
		} else {
			var v Value
			if v, err = args.next(c, "value"); err == nil {
				dst, err = s.convert(dst, c, out, v)
			}
		}
		if err != nil {
			return dst, err
		}
	}
	return append(dst, f.Tail...), nil
}

// aggregated appends the value of an aggregation.
func (s *Style) aggregated(
	dst []byte, c *Conversion, f field, a *Aggregation, data []int64,
) ([]byte, error) {
	data = a.sound(data)
	v := Value{Kind: Int, Size: 8, Signed: true}
	switch a.Func {
	case Quantize, Lquantize, Llquantize:
		return s.distribution(dst, a.Buckets, data, a.Normal), nil
	case Avg:
		v.Num = uint64(average(data, a.Normal))
	case Stddev:
		v.Num = deviation(data, a.Normal)
	case Count:
		v.Signed = false
		v.Num = uint64(normalized(data[0], a.Normal))
	default:
		v.Num = uint64(normalized(data[0], a.Normal))
	}
	return s.convert(dst, c, f, v)
}

// convert appends a value in the form of a conversion.
func (s *Style) convert(dst []byte, c *Conversion, f field, v Value) ([]byte, error) {
	verb := c.Name[len(c.Name)-1]
	wrong := func(what string) ([]byte, error) {
		return dst, fmt.Errorf("the conversion %%%s wants %s", c.Name, what)
	}
	switch c.Want {
	case Symbol, UserSymbol:
		switch v.Kind {
		case Place, Int:
			if v.Kind == Int {
				v.Num = v.unsigned()
			}
			return f.text(dst, s.shown(v.place())), nil
		}
		return wrong("an address")
	case Stack:
		if v.Kind != Frames {
			return wrong("a stack")
		}
		// A width with the flag - indents the lines; otherwise it is the width of each line.
		indent := 0
		if f.left {
			indent, f.width = f.width, 0
		}
		return s.stack(dst, v, indent, f), nil
	case String:
		if v.Kind != Chars && v.Kind != Raw {
			return wrong("a string")
		}
		if verb == 'S' {
			return f.text(dst, escape(v.Text, v.Kind == Chars)), nil
		}
		return f.text(dst, s.shown(cut(v.Text))), nil
	case Wide:
		if v.Kind != Raw {
			return wrong("an array of characters")
		}
		return f.wide(dst, s.shown(wideText(v.Text))), nil
	case Float, LongDouble:
		if v.Kind != Floating {
			return wrong("a number with a fraction")
		}
		return f.floating(dst, verb, math.Float64frombits(v.Num)), nil
	}
	switch v.Kind {
	case Int:
	case Place:
		v.Size = 8
	default:
		return wrong("an integer")
	}
	switch {
	case c.Want == Time:
		return s.times(f, dst, c.Name, v.signed()), nil
	case c.Want == WideChar:
		return f.wide(dst, s.shown(string(rune(uint32(v.Num))))), nil
	case verb == 'c':
		return f.pad(dst, s.shown(string([]byte{byte(v.Num)}))), nil
	case verb == 'C':
		return f.text(dst, escape(string([]byte{byte(v.Num)}), false)), nil
	case verb == 'p':
		return f.unsigned(dst, 'x', v.unsigned()), nil
	case (verb == 'd' || verb == 'i') && (v.Signed || c.Want == Exact):
		return f.signed(dst, v.signed()), nil
	}
	return f.unsigned(dst, verb, v.unsigned()), nil
}

// wideText returns 4-byte characters, up to the first 0, as UTF-8.
func wideText(s string) string {
	var b strings.Builder
	for ; len(s) >= 4; s = s[4:] {
		r := rune(uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24)
		if r == 0 {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
