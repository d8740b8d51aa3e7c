package web

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"culprit/profile"
)

// norms are the values of the parameter per: what the amounts of two profiles are divided by.
//
// table: the words of the parameter per
var norms = []string{"sample", "cpu-second", "work"}

// maxChanges is the highest number of functions in a comparison.
const maxChanges = 100_000

// compare replies with a comparison of two profiles. more are the other parameters that the URL may
// have.
func (s *profiles) compare(
	w http.ResponseWriter, r *http.Request, c comparison, more ...string,
) error {
	known := append([]string{"before", "after", "per", "before_work", "after_work"}, more...)
	p, err := parametersOf(r.URL.RawQuery, 0, known, nil)
	if err != nil {
		return err
	}
	if c.norm, err = p.norm(); err != nil {
		return err
	}
	if c.changes {
		if c.top, err = p.count("top", maxChanges); err != nil {
			return err
		}
	}
	ctx, release, err := s.acquireReading(r.Context())
	if err != nil {
		return err
	}
	defer release()
	if s.Workers != nil {
		return s.sendCompared(ctx, w, r, p, &c)
	}
	before, err := s.tree(ctx, p.text("before"))
	if err != nil {
		return err
	}
	after, err := s.tree(ctx, p.text("after"))
	if err != nil {
		return err
	}
	d, err := compareTrees(before, after, c.norm)
	if err != nil {
		return err
	}
	b, err := c.appendTo(nil, d)
	if err != nil {
		return fmt.Errorf("write a comparison: %w", err)
	}
	if c.changes {
		return s.sendJSON(w, r, bytes.TrimSuffix(b, []byte("\n")))
	}
	return s.replies.send(w, r, profile.ColumnsType, b)
}

// compareTrees compares two profiles. The error is a *fault.
func compareTrees(before, after *profile.Tree, norm profile.Norm) (*profile.Diff, error) {
	d, err := profile.Compare(before, after, norm)
	if err != nil {
		return nil, &fault{
			status: http.StatusConflict, Code: "incomparable", Message: err.Error(),
			Hint: "per=sample compares shares of any two profiles",
		}
	}
	return d, nil
}

// norm returns what the amounts are divided by.
func (p *parameters) norm() (profile.Norm, error) {
	norm := profile.Norm{Per: p.text("per")}
	if norm.Per == "" {
		norm.Per = "sample"
	}
	if !slices.Contains(norms, norm.Per) {
		f := badRequest("per: %q is none of %v", printable(norm.Per), norms)
		f.Hint = "per sample each profile is 100 %"
		return norm, f
	}
	sides := []struct {
		name string
		into *float64
	}{{"before_work", &norm.Before}, {"after_work", &norm.After}}
	for _, side := range sides {
		if norm.Per != "work" && p.text(side.name) == "" {
			continue
		}
		var err error
		if *side.into, err = p.positive(side.name); err != nil {
			return norm, err
		}
	}
	return norm, nil
}

// diffColumns replies with a comparison.
func (s *profiles) diffColumns(w http.ResponseWriter, r *http.Request) error {
	return s.compare(w, r, comparison{})
}

// diffChanges replies with the functions of a comparison, those that changed most first.
func (s *profiles) diffChanges(w http.ResponseWriter, r *http.Request) error {
	return s.compare(w, r, comparison{changes: true}, "top")
}

// positive returns a number above 0.
func (p *parameters) positive(name string) (float64, error) {
	v, err := strconv.ParseFloat(p.text(name), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 1) {
		return 0, badRequest("%s: %q is not a number above 0", name, printable(p.text(name)))
	}
	return v, nil
}
