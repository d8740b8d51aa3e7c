package family

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"culprit/lang/syntax"
	"culprit/measure"
)

// condition returns a term as a condition in D on the expression of a field. It returns nil when
// the kernel can't evaluate it, because it does not know the words of the field.
func (f *Family) condition(of syntax.Expr, field measure.Field, t measure.Term) syntax.Expr {
	var values []syntax.Expr
	n := f.words[field.Name]
	switch {
	case n != nil:
		if t.Op != measure.Equal && t.Op != measure.NotEqual && t.Op != measure.In &&
			t.Op != measure.Matches {
			return nil
		}
		is := t
		if t.Op == measure.NotEqual {
			is.Op = measure.Equal
		}
		if n.all == nil {
			return nil
		}
		for number, word := range n.all {
			if is.Match(word) {
				values = append(values, integer(number))
			}
		}
	case field.Type == measure.Number:
		for _, v := range t.Values {
			number, err := strconv.ParseInt(v, 10, 32)
			if err != nil || number < 0 || strconv.FormatInt(number, 10) != v {
				return nil
			}
			values = append(values, integer(number))
		}
	default:
		for _, v := range t.Values {
			if !utf8.ValidString(v) || strings.ContainsAny(v, "\x00\ufffd") ||
				len(v) >= familyString {
				return nil
			}
			values = append(values, &syntax.String{Value: v})
		}
	}
	const most = 16 // comparisons in sequence
	if len(values) == 0 || len(values) > most {
		return nil
	}
	op, join := syntax.Eq, syntax.LogOr
	switch t.Op {
	case measure.Equal, measure.In:
	case measure.Matches:
		if n == nil {
			return nil
		}
	case measure.NotEqual:
		op, join = syntax.Ne, syntax.LogAnd
	case measure.Less:
		op = syntax.Lt
	case measure.LessEqual:
		op = syntax.Le
	case measure.Greater:
		op = syntax.Gt
	case measure.GreaterEqual:
		op = syntax.Ge
	default:
		return nil
	}
	var out syntax.Expr
	for _, v := range values {
		var one syntax.Expr = &syntax.Binary{Op: op, X: of, Y: v}
		if out != nil {
			one = &syntax.Binary{Op: join, X: out, Y: one}
		}
		out = one
	}
	return out
}

func integer(n int64) syntax.Expr { return &syntax.Int{Value: uint64(n)} }
