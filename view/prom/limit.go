package prom

import (
	"context"
	"fmt"
	"regexp/syntax"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"
)

// A short expression can take any time and memory: parsing takes the square of its depth, a regular
// expression repeats its parts a thousand times, and label_replace doubles a label. The engine
// bounds samples only. This file bounds the rest before the engine sees the expression.

const (
	maxParentheses = 100      // nested, also braces and brackets
	maxFormat      = 2 << 20  // bytes of an expression, times its nested nodes: a + b + c has two
	maxRegexp      = 100_000  // instructions of all regular expressions of a request, 40 bytes each
	maxLabelBytes  = 64 << 20 // of the labels that a query makes of those recorded
)

// checkTexts returns an error if the texts would take too long to parse, or their regular
// expressions too much memory in sum. Errors of syntax are left to the parser.
func checkTexts(texts ...string) error {
	size := 0
	for _, text := range texts {
		if err := checkText(text, &size); err != nil {
			return err
		}
	}
	return nil
}

// checkText checks one text. It adds the instructions of its regular expressions to size.
func checkText(text string, size *int) error {
	if len(text) > maxQuery {
		return fmt.Errorf("longer than %d bytes", maxQuery)
	}
	tokens, depth, inside := 0, 0, false
	var item parser.Item
	for l := parser.Lex(text); ; {
		l.NextItem(&item)
		switch item.Typ {
		case parser.EOF, parser.ERROR:
			return nil
		case parser.LEFT_BRACE, parser.RIGHT_BRACE:
			inside = item.Typ == parser.LEFT_BRACE
		case parser.STRING:
			if *size += regexpSize(item.Val); *size > maxRegexp {
				return fmt.Errorf("its regular expressions have more than %d instructions",
					maxRegexp)
			}
		}
		switch item.Typ {
		case parser.LEFT_PAREN, parser.LEFT_BRACE, parser.LEFT_BRACKET:
			depth++
		case parser.RIGHT_PAREN, parser.RIGHT_BRACE, parser.RIGHT_BRACKET:
			depth--
		}
		if !inside {
			tokens++
		}
		switch {
		case tokens > maxTokens:
			return fmt.Errorf("more than %d tokens", maxTokens)
		case depth > maxParentheses:
			return fmt.Errorf("more than %d nested parentheses", maxParentheses)
		}
	}
}

// regexpSize returns how many instructions the text of a quoted string has as a regular expression,
// about; 0 for what is none.
func regexpSize(quoted string) int {
	text, err := strutil.Unquote(quoted)
	if err != nil {
		return 0
	}
	re, err := syntax.Parse("^(?s:"+text+")$", syntax.Perl)
	if err != nil {
		return 0
	}
	return expandedSize(re)
}

// expandedSize returns the number of nodes of a regular expression whose repetitions are written
// out: a{3} has three.
func expandedSize(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += expandedSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(1, re.Min, re.Max)
	}
	return min(n, maxRegexp+1)
}

// depthOf returns how many nodes of an expression are nested.
func depthOf(n parser.Node) (depth int) {
	type step struct {
		node  parser.Node
		depth int
	}
	for todo := []step{{n, 1}}; len(todo) > 0; {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		depth = max(depth, s.depth)
		for c := range parser.ChildrenIter(s.node) {
			if c != nil {
				todo = append(todo, step{c, s.depth + 1})
			}
		}
	}
	return depth
}

// parse parses an expression that fits the limits. The error says which limit it exceeds, or is
// that of the parser.
func (a *API) parse(text string) (parser.Expr, error) {
	if a.unbounded {
		return parser.ParseExpr(text)
	}
	if err := checkTexts(text); err != nil {
		return nil, err
	}
	return parser.ParseExpr(text)
}

// pretty formats an expression. Its parts are written once for each node that contains them. The
// error says that this would take too long.
func pretty(e parser.Expr, text string) (string, error) {
	if depth := depthOf(e); depth*len(text) > maxFormat {
		return "", fmt.Errorf("%d nested operations in %d bytes are too many to format", depth,
			len(text))
	}
	return e.Pretty(0), nil
}

// growth bounds the labels that an expression makes of a series whose labels have n bytes:
// all*n + allFixed in sum, and longest*n + fixed for the longest of them.
//
//	label_replace(x, "a", "$1-$1", "b", "(.*)")   longest 2n + 1, all 3n + 1
type growth struct {
	longest, fixed, all, allFixed float64
}

// add returns the growth when one more label is made of times others and fixed bytes.
func (g growth) add(times, fixed float64) growth {
	long, more := times*g.longest, times*g.fixed+fixed
	return growth{max(g.longest, long), max(g.fixed, more), g.all + long, g.allFixed + more}
}

// or returns a growth that is at least both.
func (g growth) or(o growth) growth {
	return growth{max(g.longest, o.longest), max(g.fixed, o.fixed), max(g.all, o.all),
		max(g.allFixed, o.allFixed)}
}

// growthOf returns the growth of the labels of an expression.
func growthOf(n parser.Node) growth {
	g := growth{longest: 1, all: 1}
	for c := range parser.ChildrenIter(n) {
		if c != nil {
			g = g.or(growthOf(c))
		}
	}
	switch n := n.(type) {
	case *parser.AggregateExpr:
		if label, ok := n.Param.(*parser.StringLiteral); ok { // of count_values
			return g.add(0, float64(len(label.Val)+24))
		}
	case *parser.VectorSelector:
		bytes := 0
		for _, m := range n.LabelMatchers { // absent makes labels of them
			bytes += len(m.Name) + len(m.Value)
		}
		return g.add(0, float64(bytes))
	case *parser.Call:
		text := func(i int) string {
			if s, ok := n.Args[min(i, len(n.Args)-1)].(*parser.StringLiteral); ok {
				return s.Val
			}
			return ""
		}
		switch {
		case n.Func.Name == "label_replace" && len(n.Args) == 5:
			return g.add(float64(strings.Count(text(2), "$")), float64(len(text(1))+len(text(2))))
		case n.Func.Name == "label_join" && len(n.Args) >= 3:
			joined := float64(len(n.Args) - 3)
			return g.add(joined, float64(len(text(1)))+joined*float64(len(text(2))))
		}
	}
	return g
}

// labelBudget bounds the bytes of the labels of one query.
type labelBudget struct {
	growth growth
	used   float64
}

// errLabels returns the error of a query whose labels are too large.
func errLabels() error {
	return fmt.Errorf("the labels of the query take more than %d MB: label_replace and label_join "+
		"multiply them", maxLabelBytes>>20)
}

// labelBudgetKey is the key of a *labelBudget in a context.
type labelBudgetKey struct{}

// withLabelBudget returns a context that bounds the labels of the selectors of an expression. The
// error is that of an expression whose labels are too large without any series.
func withLabelBudget(ctx context.Context, e parser.Expr) (context.Context, error) {
	b := &labelBudget{growth: growthOf(e)}
	if b.growth.allFixed > maxLabelBytes {
		return nil, errLabels()
	}
	return context.WithValue(ctx, labelBudgetKey{}, b), nil
}

// charge charges the labels of a series to the budget of a context, with what the expression makes
// of them. It is not safe for concurrent use: the engine selects one after the other.
func charge(ctx context.Context, l labels.Labels) error {
	b, ok := ctx.Value(labelBudgetKey{}).(*labelBudget)
	if !ok {
		return nil
	}
	b.used += b.growth.all*float64(l.ByteSize()) + b.growth.allFixed
	if b.used > maxLabelBytes {
		return errLabels()
	}
	return nil
}
