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

// norms are what the amounts of two profiles can be divided by.
//
// table: the words of the parameter per
var norms = []string{"sample", "cpu-second", "work"}

// mostChanges is how many functions of a comparison are told at most.
const mostChanges = 100_000

// compared reads two profiles and lays them over each other. done is called when the comparison is no longer needed.
func (s *Server) compared(r *http.Request, more ...string) (d *profile.Diff, p *parameters, done func(), err error) {
	p, err = parametersOf(r.URL.RawQuery, 0, append([]string{"before", "after", "per", "before_work", "after_work"}, more...), nil)
	if err != nil {
		return nil, nil, nil, err
	}
	norm := profile.Norm{Per: p.text("per")}
	if norm.Per == "" {
		norm.Per = "sample"
	}
	if !slices.Contains(norms, norm.Per) {
		f := badf("per: %q is none of %v", printable(norm.Per), norms)
		f.Hint = "per sample each profile is 100 %"
		return nil, nil, nil, f
	}
	for _, side := range []struct {
		name string
		into *float64
	}{{"before_work", &norm.Before}, {"after_work", &norm.After}} {
		if norm.Per == "work" || p.text(side.name) != "" {
			if *side.into, err = p.positive(side.name); err != nil {
				return nil, nil, nil, err
			}
		}
	}
	ctx, free, err := s.profiling(r.Context())
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if err != nil {
			free()
		}
	}()
	var both [2]*profile.Tree
	for i, name := range []string{"before", "after"} {
		if both[i], err = s.treeOf(ctx, p.text(name)); err != nil {
			return nil, nil, nil, err
		}
	}
	d, err = profile.Compare(both[0], both[1], norm)
	if err != nil {
		err = &fault{status: http.StatusConflict, Code: "incomparable", Message: err.Error(), Hint: "per=sample compares shares of any two profiles"}
		return nil, nil, nil, err
	}
	return d, p, free, nil
}

// diffColumns answers with a comparison.
func (s *Server) diffColumns(w http.ResponseWriter, r *http.Request) error {
	d, _, done, err := s.compared(r)
	if err != nil {
		return err
	}
	defer done()
	b, err := profile.AppendDiffColumns(nil, d)
	if err != nil {
		return err
	}
	return s.send(w, r, profile.ColumnsType, b)
}

// diffChanges answers with the functions of a comparison by how much of it they explain.
func (s *Server) diffChanges(w http.ResponseWriter, r *http.Request) error {
	d, p, done, err := s.compared(r, "top")
	if err != nil {
		return err
	}
	defer done()
	top, err := p.count("top", mostChanges)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := profile.WriteChangesJSON(&b, d, top); err != nil {
		return fmt.Errorf("tell the changes: %w", err)
	}
	return s.sendJSON(w, r, bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// positive reads a number above 0.
func (p *parameters) positive(name string) (float64, error) {
	v, err := strconv.ParseFloat(p.text(name), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 1) {
		return 0, badf("%s: %q is no number above 0", name, printable(p.text(name)))
	}
	return v, nil
}
