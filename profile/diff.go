package profile

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Norm defines by what the amounts of two profiles are divided for a comparison.
type Norm struct {
	Per           string  // sample, cpu-second or work
	Before, After float64 // CPU-seconds or units of work of each profile; not used for sample
}

// A Diff is a comparison of two profiles. Functions are the same when sameName returns the same for
// both. Amounts are normalised.
type Diff struct {
	Tree       *Tree     // the calls of both profiles, with the amounts of after
	BeforeSelf []float64 // of each node
	Before     []float64 // of each node including its callees
	Norm       Norm
	Unit       string // of the normalised amounts
	NormText   string // describes the norm

	whole   [2]float64 // amounts before normalisation
	samples [2]float64 // number of samples; NaN: unknown
	scale   [2]float64 // the normalised amount of 1
	most    float64    // the largest change of a node, for colours
}

// Compare compares two profiles. The error says why they can't be compared: different units, an
// empty profile, an unknown norm or number of samples.
func Compare(before, after *Tree, n Norm) (*Diff, error) {
	if before.Unit != after.Unit && n.Per != "sample" {
		return nil, fmt.Errorf(
			"the profiles count different things, %s and %s: only their shares can be compared",
			clean(before.Unit), clean(after.Unit),
		)
	}
	if before.Sum() <= 0 || after.Sum() <= 0 {
		return nil, fmt.Errorf("a profile is empty: there is nothing to compare")
	}
	d := &Diff{Norm: n, whole: [2]float64{before.Sum(), after.Sum()},
		samples: [2]float64{before.sampled(), after.sampled()}}
	counts := func(i int) string {
		if math.IsNaN(d.samples[i]) {
			return amount(d.whole[i]) + " " + clean([2]*Tree{before, after}[i].Unit)
		}
		return amount(d.samples[i]) + " samples"
	}
	switch n.Per {
	case "sample":
		d.scale = [2]float64{1 / before.Sum(), 1 / after.Sum()}
		d.Unit = "of all samples"
		d.NormText = fmt.Sprintf(
			"Normalised per sample: each profile is 100%%, before %s, after %s.", counts(0),
			counts(1),
		)
	case "cpu-second", "work":
		if n.Per == "cpu-second" && n.Before == 0 && n.After == 0 {
			n.Before, n.After = before.Seconds, after.Seconds
		}
		if !(n.Before > 0) || !(n.After > 0) || math.IsInf(n.Before+n.After, 0) {
			return nil, fmt.Errorf("per %s: how many there were is not known for both profiles",
				n.Per)
		}
		d.Norm = n
		d.scale = [2]float64{1 / n.Before, 1 / n.After}
		what := map[string]string{"cpu-second": "CPU-second", "work": "unit of work"}[n.Per]
		d.Unit = before.Unit + " a " + what
		d.NormText = fmt.Sprintf("Normalised per %s: before %s over %s, after %s over %s.", what,
			counts(0), amount(n.Before), counts(1), amount(n.After))
	default:
		return nil, fmt.Errorf("normalisation %q is none of sample, cpu-second, work", n.Per)
	}
	b := NewBuilder()
	var beforeSelf []float64
	lay := func(t *Tree, add func(node int32, v float64)) {
		to := make([]uint32, len(t.Functions))
		for i := 1; i < len(to); i++ {
			f := &t.Functions[i]
			to[i] = b.Function(sameName([]byte(f.Name)), nil, 0)
			if g := &b.tree.Functions[to[i]]; g.File == "" {
				g.File, g.Line = f.File, f.Line
			}
		}
		at := make([]Call, t.Len())
		add(0, t.Self[0])
		for i := 1; i < t.Len(); i++ {
			at[i] = b.Child(at[t.Parent[i]], to[t.Function[i]])
			add(at[i].Node, t.Self[i])
		}
	}
	lay(before, func(node int32, v float64) {
		beforeSelf = append(beforeSelf, make([]float64, max(0, int(node)+1-len(beforeSelf)))...)
		beforeSelf[node] += v * d.scale[0]
	})
	lay(after, func(node int32, v float64) { b.Add(node, v*d.scale[1]) })
	d.Tree = b.Tree()
	d.Tree.Unit, d.Tree.Samples = d.Unit, after.Samples
	modules := map[string]*Function{}
	for _, t := range []*Tree{before, after} {
		for i := range t.Functions {
			modules[string(sameName([]byte(t.Functions[i].Name)))] = &t.Functions[i]
		}
	}
	for i := 1; i < len(d.Tree.Functions); i++ {
		if f := modules[d.Tree.Functions[i].Name]; f != nil {
			d.Tree.Functions[i].Module, d.Tree.Functions[i].Kind = f.Module, f.Kind
		}
	}
	d.BeforeSelf = append(beforeSelf, make([]float64, d.Tree.Len()-len(beforeSelf))...)
	d.Before = slices.Clone(d.BeforeSelf)
	for i := d.Tree.Len() - 1; i > 0; i-- {
		d.Before[d.Tree.Parent[i]] += d.Before[i]
	}
	for i := 1; i < d.Tree.Len(); i++ {
		d.most = max(d.most, math.Abs(d.Tree.Total[i]-d.Before[i]))
	}
	return d, nil
}

// minPeriod is the lowest common divisor of all amounts that is taken as the period of the samples.
const minPeriod = 1000

// sampled returns the number of samples of a profile; NaN when it is unknown. When all amounts are
// multiples of a large number, that number is the period, as in the output of perf script.
func (t *Tree) sampled() float64 {
	if t.Samples > 0 {
		return t.Samples
	}
	common := uint64(0)
	for _, v := range t.Self {
		if v == 0 {
			continue
		}
		if v != math.Trunc(v) || v > 1<<53 {
			return math.NaN()
		}
		for a := uint64(v); a != 0; {
			common, a = a, common%a
		}
		if common == 1 {
			break
		}
	}
	switch {
	case common >= minPeriod:
		return t.Sum() / float64(common)
	case t.Unit == "samples" && t.Sum() < 1e9:
		return t.Sum()
	}
	return math.NaN()
}

// A Change is the difference of one function between two profiles.
type Change struct {
	Function *Function
	// Normalised amounts: of the function itself, and including its callees.
	SelfBefore, SelfAfter, Before, After float64
	// Explains is the function's own change divided by the sum of all changes in the same
	// direction. ExplainsBelow is the same including callees; callers and callees share it.
	Explains, ExplainsBelow float64
	// Sigmas is the own change in standard deviations, SigmasBelow the change including callees,
	// for independent samples. NaN: the number of samples is unknown.
	Sigmas, SigmasBelow float64
	// Confidence is the probability that chance alone changes no function as much: 0 to 1, NaN when
	// unknown.
	Confidence float64
}

// significance is the lowest confidence of a change that is not noise.
const significance = 0.95

// Noise reports whether chance may have caused the change.
func (c *Change) Noise() bool { return c.Confidence < significance }

// Changes returns all functions: significant changes first, then by how much they explain.
func (d *Diff) Changes() []Change {
	t := d.Tree
	all := make([]Change, len(t.Functions))
	for i := range all {
		all[i].Function = &t.Functions[i]
	}
	for i, f := range t.Function {
		all[f].SelfBefore += d.BeforeSelf[i]
		all[f].SelfAfter += t.Self[i]
	}
	t.outermost(func(n int) {
		all[t.Function[n]].Before += d.Before[n]
		all[t.Function[n]].After += t.Total[n]
	})
	all = slices.DeleteFunc(all[1:], func(c Change) bool { return c.Before == 0 && c.After == 0 })
	up, down := 0.0, 0.0
	for _, c := range all {
		if v := c.SelfAfter - c.SelfBefore; v > 0 {
			up += v
		} else {
			down -= v
		}
	}
	known := !math.IsNaN(d.samples[0] + d.samples[1])
	for i := range all {
		c := &all[i]
		c.Explains = explains(c.SelfAfter-c.SelfBefore, up, down)
		c.ExplainsBelow = explains(c.After-c.Before, up, down)
		c.Sigmas, c.SigmasBelow, c.Confidence = math.NaN(), math.NaN(), math.NaN()
		if known {
			c.Sigmas, c.SigmasBelow = d.sigmas(c.SelfBefore, c.SelfAfter), d.sigmas(c.Before,
				c.After)
			// With many functions, some change that much by chance.
			by := max(math.Abs(c.Sigmas), math.Abs(c.SigmasBelow))
			c.Confidence = 1 - min(1, float64(len(all))*math.Erfc(by/math.Sqrt2))
		}
	}
	slices.SortFunc(all, func(a, b Change) int {
		an, bn := a.Noise(), b.Noise()
		if an != bn {
			if bn {
				return -1
			}
			return 1
		}
		return cmp.Or(
			cmp.Compare(math.Abs(b.SelfAfter-b.SelfBefore), math.Abs(a.SelfAfter-a.SelfBefore)),
			cmp.Compare(math.Abs(b.After-b.Before), math.Abs(a.After-a.Before)),
			strings.Compare(a.Function.Name, b.Function.Name),
		)
	})
	return all
}

func explains(change, up, down float64) float64 {
	whole := max(up, down)
	if whole == 0 {
		return 0
	}
	return change / whole
}

// sigmas returns a change in standard deviations. Shares of a number of samples have a binomial
// distribution, amounts a Poisson distribution, with the mean of both profiles.
func (d *Diff) sigmas(before, after float64) float64 {
	if before == after {
		return 0
	}
	// The numbers of samples, and the normalised weight of one sample.
	n, m := d.samples[0], d.samples[1]
	one, other := d.whole[0]*d.scale[0]/n, d.whole[1]*d.scale[1]/m
	var variance float64
	if d.Norm.Per == "sample" {
		p := (before*n + after*m) / (n + m)
		variance = p * (1 - p) * (1/n + 1/m)
	} else {
		rate := (before/one + after/other) / (1/one + 1/other)
		variance = rate*one + rate*other
	}
	if variance <= 0 { // the function is the whole profile both times
		return 0
	}
	return (after - before) / math.Sqrt(variance)
}

// nodeTitle returns the title of a node in a picture.
func (d *Diff) nodeTitle(node int32) string {
	b, a := d.Before[node], d.Tree.Total[node]
	return d.amount(b) + " before, " + d.amount(a) + " after: " + d.signed(a-b)
}

func (d *Diff) amount(v float64) string {
	if d.Norm.Per == "sample" {
		return share(v, 1)
	}
	return significant(v)
}

func (d *Diff) signed(v float64) string {
	s := d.amount(math.Abs(v))
	switch {
	case v < 0:
		return "-" + s
	case v > 0:
		return "+" + s
	}
	return s
}

// significant formats an amount with four significant digits.
func significant(v float64) string {
	if v == 0 || math.Abs(v) >= 1000 {
		return amount(v)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// colour returns a node's colour: red for more, blue for less, stronger for larger changes.
func (d *Diff) colour(node int32) string {
	v := 0.0
	if d.most > 0 {
		v = (d.Tree.Total[node] - d.Before[node]) / d.most
	}
	// By the square root, since most changes are small compared with the largest.
	pale := 235 - int(math.Round(165*math.Sqrt(min(1, math.Abs(v)))))
	if v < 0 {
		return fmt.Sprintf("#%02x%02xf0", pale, min(255, pale+15))
	}
	if v > 0 {
		return fmt.Sprintf("#f0%02x%02x", pale, pale)
	}
	return "#e4e4e4"
}

// WriteDiffSVG draws a comparison: the calls as they are after, red where they have more than
// before, blue where less. Calls that exist only before have no width and are in the table. The
// error is the writer's.
func WriteDiffSVG(w io.Writer, d *Diff, p Picture) error {
	if p.Note == "" {
		p.Note = d.NormText
	}
	return writeSVG(w, d.Tree, d, p)
}

// WriteDiffFolded writes a line per stack with the amounts before and after, in the form of
// FlameGraph's difffolded.pl, not normalised. The error is the writer's.
func WriteDiffFolded(w io.Writer, d *Diff) error {
	out := bufio.NewWriterSize(w, 64<<10)
	names := make([][]byte, len(d.Tree.Functions))
	for i, f := range d.Tree.Functions {
		names[i] = foldedName(f.Name)
	}
	round := func(v float64) float64 { return math.Round(v*1000) / 1000 }
	var err error
	d.Tree.lines(names, func(node int32, line []byte) {
		b, a := d.BeforeSelf[node]/d.scale[0], d.Tree.Self[node]/d.scale[1]
		if b == 0 && a == 0 || err != nil {
			return
		}
		line = append(
			AppendAmount(append(AppendAmount(append(line, ' '), round(b)), ' '), round(a)), '\n',
		)
		_, err = out.Write(line)
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

// WriteChanges writes the functions that explain most of the difference, at most most of them; 0
// means all. The error is the writer's.
func WriteChanges(w io.Writer, d *Diff, most int) error {
	out := bufio.NewWriter(w)
	write := func(s string) { out.WriteString(s) } //nolint:errcheck // Flush returns it
	write(d.NormText + "\n")
	changes := d.Changes()
	if math.IsNaN(d.samples[0] + d.samples[1]) {
		write(
			"The number of samples is unknown, so changes can't be distinguished from chance.\n",
		)
	}
	noise := 0
	for i := range changes {
		if changes[i].Noise() {
			noise++
		}
	}
	width := 10
	write(pad("itself", 2*width) + pad("", width) + pad("with what it calls", 2*width+8) + "\n")
	half := pad("before", width) + pad("after", width) + pad("explains", width)
	write(half + half + pad("sigma", 8) + "  function\n")
	shown := 0
	for i := range changes {
		c := &changes[i]
		if c.Noise() || most > 0 && shown == most {
			break
		}
		if c.SelfBefore == c.SelfAfter && c.Before == c.After {
			continue
		}
		shown++
		by := "-"
		if !math.IsNaN(c.Sigmas) {
			by = strconv.FormatFloat(cmp.Or(c.Sigmas, c.SigmasBelow), 'f', 1, 64)
		}
		write(
			pad(d.amount(c.SelfBefore), width) + pad(d.amount(c.SelfAfter),
				width) + pad(signedPercent(c.Explains), width) +
				pad(d.amount(c.Before), width) + pad(
				d.amount(c.After),
				width,
			) + pad(signedPercent(c.ExplainsBelow), width) + pad(by, 8) +
				"  " + clean(
				shortened(c.Function.Qualified(), maxName),
			) + "\n",
		)
	}
	if shown == 0 {
		write("No function changed significantly.\n")
	}
	if left := len(changes) - noise - shown; left > 0 {
		write(plural(left, "more function", "more functions") + "\n")
	}
	if noise > 0 {
		count := plural(noise, "function", "functions")
		write(count + " may have changed by chance (under 95% confidence)\n")
	}
	return out.Flush()
}

func signedPercent(v float64) string {
	s := strconv.FormatFloat(100*v, 'f', 1, 64) + "%"
	if v > 0 {
		return "+" + s
	}
	return s
}

type jsonChange struct {
	Function      string   `json:"function"`
	Module        string   `json:"module,omitempty"`
	SelfBefore    float64  `json:"self_before"`
	SelfAfter     float64  `json:"self_after"`
	Before        float64  `json:"total_before"`
	After         float64  `json:"total_after"`
	Explains      float64  `json:"explains_self"`
	ExplainsBelow float64  `json:"explains_total"`
	Sigmas        *float64 `json:"sigma_self"`
	SigmasBelow   *float64 `json:"sigma_total"`
	Confidence    *float64 `json:"confidence"`
}

// WriteChangesJSON writes one object with the norm and the functions in the order of WriteChanges,
// then those that may have changed by chance. Unknown values are null. The error is the writer's.
func WriteChangesJSON(w io.Writer, d *Diff, most int) error {
	known := func(v float64) *float64 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		return &v
	}
	type side struct {
		Amount  float64  `json:"amount"`
		Samples *float64 `json:"samples"`
		Divided float64  `json:"divided_by"`
	}
	out := struct {
		Per       string       `json:"normalised_per"`
		NormText  string       `json:"normalisation"`
		Before    side         `json:"before"`
		After     side         `json:"after"`
		Functions []jsonChange `json:"functions"`
		More      int          `json:"more"`
	}{d.Norm.Per, d.NormText, side{d.whole[0], known(d.samples[0]), 1 / d.scale[0]}, side{d.whole[1], known(d.samples[1]), 1 / d.scale[1]}, []jsonChange{}, 0}
	for i, c := range d.Changes() {
		if most > 0 && i >= most {
			out.More++
			continue
		}
		out.Functions = append(
			out.Functions,
			jsonChange{c.Function.Name, c.Function.Module, c.SelfBefore, c.SelfAfter, c.Before,
				c.After, c.Explains, c.ExplainsBelow, known(c.Sigmas), known(c.SigmasBelow),
				known(c.Confidence)},
		)
	}
	return json.NewEncoder(w).Encode(out)
}
