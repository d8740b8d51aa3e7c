package web

import (
	"bytes"
	"context"
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

// compare reads two profiles and compares them. The caller must call release when it no longer
// needs the comparison. more are the other parameters that the URL may have.
func (s *profiles) compare(
	r *http.Request, more ...string,
) (d *profile.Diff, p *parameters, release func(), err error) {
	known := append([]string{"before", "after", "per", "before_work", "after_work"}, more...)
	p, err = parametersOf(r.URL.RawQuery, 0, known, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	norm, err := p.norm()
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, release, err := s.acquireReading(r.Context())
	if err != nil {
		return nil, nil, nil, err
	}
	d, err = s.compareIDs(ctx, p.text("before"), p.text("after"), norm)
	if err != nil {
		release()
		return nil, nil, nil, err
	}
	return d, p, release, nil
}

// compareIDs compares the profiles with two IDs.
func (s *profiles) compareIDs(
	ctx context.Context, before, after string, norm profile.Norm,
) (*profile.Diff, error) {
	b, err := s.tree(ctx, before)
	if err != nil {
		return nil, err
	}
	a, err := s.tree(ctx, after)
	if err != nil {
		return nil, err
	}
	d, err := profile.Compare(b, a, norm)
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
	d, _, release, err := s.compare(r)
	if err != nil {
		return err
	}
	defer release()
	b, err := profile.AppendDiffColumns(nil, d)
	if err != nil {
		return err
	}
	return s.replies.send(w, r, profile.ColumnsType, b)
}

// diffChanges replies with the functions of a comparison, those that changed most first.
func (s *profiles) diffChanges(w http.ResponseWriter, r *http.Request) error {
	d, p, release, err := s.compare(r, "top")
	if err != nil {
		return err
	}
	defer release()
	top, err := p.count("top", maxChanges)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := profile.WriteChangesJSON(&b, d, top); err != nil {
		return fmt.Errorf("write the changes: %w", err)
	}
	return s.sendJSON(w, r, bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// positive returns a number above 0.
func (p *parameters) positive(name string) (float64, error) {
	v, err := strconv.ParseFloat(p.text(name), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 1) {
		return 0, badRequest("%s: %q is not a number above 0", name, printable(p.text(name)))
	}
	return v, nil
}
