package prom

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// innerSteps returns how often the innermost of the subqueries is evaluated.
func innerSteps(s *parser.EvalStmt) (most float64) {
	parser.Inspect(s.Expr, func(n parser.Node, path []parser.Node) error {
		sub, ok := n.(*parser.SubqueryExpr)
		if !ok {
			return nil
		}
		over, step := s.End.Sub(s.Start).Seconds()+sub.Range.Seconds(), sub.Step
		for _, p := range path {
			if outer, ok := p.(*parser.SubqueryExpr); ok {
				over += outer.Range.Seconds()
			}
		}
		if step == 0 {
			step = time.Minute
		}
		most = max(most, over/step.Seconds())
		return nil
	})
	return most
}

func limitOf(r *http.Request, name string) (int, error) {
	s := r.FormValue(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err == nil && n < 0 {
		err = errors.New("limit must be non-negative")
	}
	return n, err
}

func timeOf(r *http.Request, name string, otherwise time.Time) (time.Time, error) {
	if s := r.FormValue(name); s != "" {
		return parseTime(s)
	}
	return otherwise, nil
}

// parseTime parses seconds since the epoch or RFC 3339, to the millisecond. Times that the engine
// can't represent become the nearest that it can.
func parseTime(s string) (time.Time, error) {
	const most = 9e15 / 1000 // milliseconds that a float64 holds exactly
	if v, err := strconv.ParseFloat(s, 64); err == nil && v == v {
		v = math.Round(min(max(v, -most), most) * 1000)
		return time.UnixMilli(int64(v)).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
}

// parseSpan parses seconds, or Prometheus's notation of a duration: 1h30m.
func parseSpan(s string) (time.Duration, error) {
	if v, err := strconv.ParseFloat(s, 64); err == nil && v == v {
		if math.Abs(v) > math.MaxInt64/1e9 {
			const overflow = "cannot parse %q to a valid duration. It overflows int64"
			return 0, fmt.Errorf(overflow, s)
		}
		return time.Duration(v * 1e9), nil
	}
	if d, err := parseUnits(s); err == nil {
		return d, nil
	}
	return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
}
