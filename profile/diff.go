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

// A Norm says what the amounts of two profiles are divided by, so that they can be compared.
type Norm struct {
	Per           string  // sample, cpu-second or work
	Before, After float64 // CPU-seconds or units of work that the profiles are of; for sample not used
}

// A Diff is two profiles laid over each other: functions are one when their names are, but for what compilers number anew: see sameName. Amounts are divided as the norm says.
type Diff struct {
	Tree       *Tree     // the calls of both; its amounts are those of after
	BeforeSelf []float64 // of each node
	Before     []float64 // of each node and what it calls
	Norm       Norm
	Unit       string // of the normalised amounts
	Said       string // the norm as a sentence

	whole   [2]float64 // amounts before they were divided
	samples [2]float64 // how many samples there were; NaN not known
	scale   [2]float64 // what an amount is multiplied with
	most    float64    // largest change of a node, for colours
}

// Compare lays two profiles over each other.
func Compare(before, after *Tree, n Norm) (*Diff, error) {
	if before.Unit != after.Unit && n.Per != "sample" {
		return nil, fmt.Errorf("the profiles count different things, %s and %s: only their shares can be compared", clean(before.Unit), clean(after.Unit))
	}
	if before.Sum() <= 0 || after.Sum() <= 0 {
		return nil, fmt.Errorf("a profile is empty: there is nothing to compare")
	}
	d := &Diff{Norm: n, whole: [2]float64{before.Sum(), after.Sum()}, samples: [2]float64{before.sampled(), after.sampled()}}
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
		d.Said = fmt.Sprintf("Normalised per sample: each profile is 100%%, before %s, after %s.", counts(0), counts(1))
	case "cpu-second", "work":
		if n.Per == "cpu-second" && n.Before == 0 && n.After == 0 {
			n.Before, n.After = before.Seconds, after.Seconds
		}
		if !(n.Before > 0) || !(n.After > 0) || math.IsInf(n.Before+n.After, 0) {
			return nil, fmt.Errorf("per %s: how many there were is not known for both profiles", n.Per)
		}
		d.Norm = n
		d.scale = [2]float64{1 / n.Before, 1 / n.After}
		what := map[string]string{"cpu-second": "CPU-second", "work": "unit of work"}[n.Per]
		d.Unit = before.Unit + " a " + what
		d.Said = fmt.Sprintf("Normalised per %s: before %s over %s, after %s over %s.", what, counts(0), amount(n.Before), counts(1), amount(n.After))
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

// leastPeriod is from where on a number that divides all amounts of a profile is taken for the period of its samples.
const leastPeriod = 1000

// sampled gives how many samples a profile is of; NaN not known. Where only amounts are known that all are multiples of one large
// number, that number is the period: perf script's amounts are.
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
	case common >= leastPeriod:
		return t.Sum() / float64(common)
	case t.Unit == "samples" && t.Sum() < 1e9:
		return t.Sum()
	}
	return math.NaN()
}

// A Change is what one function has more or less.
type Change struct {
	Function *Function
	// Amounts as the norm says: in the function itself, and with what it calls, before and after.
	SelfBefore, SelfAfter, Before, After float64
	// Explains is the function's own change by the sum of all changes in the same direction; ExplainsBelow that of the function
	// with what it calls, which callers and called share.
	Explains, ExplainsBelow float64
	// Sigmas is the change of the function itself, SigmasBelow with what it calls, by its standard deviation, were the samples
	// independent; NaN where the number of samples is not known.
	Sigmas, SigmasBelow float64
	// Confidence is how probable it is that chance alone would not have changed any function that much: 0 to 1, NaN not known.
	Confidence float64
}

// sure is from which confidence on a change counts as one.
const sure = 0.95

// Noise says whether chance may have made the change.
func (c *Change) Noise() bool { return c.Confidence < sure }

// Changes gives all functions: those that changed beyond chance first, among them those that explain most.
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
		c.Explains, c.ExplainsBelow = explains(c.SelfAfter-c.SelfBefore, up, down), explains(c.After-c.Before, up, down)
		c.Sigmas, c.SigmasBelow, c.Confidence = math.NaN(), math.NaN(), math.NaN()
		if known {
			c.Sigmas, c.SigmasBelow = d.sigmas(c.SelfBefore, c.SelfAfter), d.sigmas(c.Before, c.After)
			// Of so many functions some move that far by chance.
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
		return cmp.Or(cmp.Compare(math.Abs(b.SelfAfter-b.SelfBefore), math.Abs(a.SelfAfter-a.SelfBefore)),
			cmp.Compare(math.Abs(b.After-b.Before), math.Abs(a.After-a.Before)), strings.Compare(a.Function.Name, b.Function.Name))
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

// sigmas gives a change by its standard deviation. Shares of a number of samples vary as drawings do, amounts as events do, each
// taken to be what both profiles together say.
func (d *Diff) sigmas(before, after float64) float64 {
	if before == after {
		return 0
	}
	// Samples that the amounts are, and what one sample weighs once normalised.
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
	if variance <= 0 { // all of it before and after
		return 0
	}
	return (after - before) / math.Sqrt(variance)
}

// told tells of a node in a picture.
func (d *Diff) told(node int32) string {
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

// significant gives an amount with four digits that count.
func significant(v float64) string {
	if v == 0 || math.Abs(v) >= 1000 {
		return amount(v)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// colour gives a node's: red for more, blue for less, the stronger the larger the change is beside the largest.
func (d *Diff) colour(node int32) string {
	v := 0.0
	if d.most > 0 {
		v = (d.Tree.Total[node] - d.Before[node]) / d.most
	}
	// By the root, as most changes are small beside the largest.
	pale := 235 - int(math.Round(165*math.Sqrt(min(1, math.Abs(v)))))
	if v < 0 {
		return fmt.Sprintf("#%02x%02xf0", pale, min(255, pale+15))
	}
	if v > 0 {
		return fmt.Sprintf("#f0%02x%02x", pale, pale)
	}
	return "#e4e4e4"
}

// WriteDiffSVG draws a difference: the calls as they are after, red where they have more than before, blue where less. What was before
// alone has no width, and is in the table.
func WriteDiffSVG(w io.Writer, d *Diff, p Picture) error {
	if p.Note == "" {
		p.Note = d.Said
	}
	return writeSVG(w, d.Tree, d, p)
}

// WriteDiffFolded writes stack, amount before and amount after a line, as FlameGraph's difffolded.pl does. Amounts are those that were
// read.
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
		line = append(AppendAmount(append(AppendAmount(append(line, ' '), round(b)), ' '), round(a)), '\n')
		_, err = out.Write(line)
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

// WriteChanges writes the functions by how much of the difference they explain, the first most of them (0: all).
func WriteChanges(w io.Writer, d *Diff, most int) error {
	out := bufio.NewWriter(w)
	write := func(s string) { out.WriteString(s) } //nolint:errcheck // told when it is flushed
	write(d.Said + "\n")
	changes := d.Changes()
	if math.IsNaN(d.samples[0] + d.samples[1]) {
		write("How many samples the amounts stand for is not known, so nothing tells change from chance.\n")
	}
	noise := 0
	for i := range changes {
		if changes[i].Noise() {
			noise++
		}
	}
	width := 10
	write(pad("itself", 2*width) + pad("", width) + pad("with what it calls", 2*width+8) + "\n")
	write(pad("before", width) + pad("after", width) + pad("explains", width) + pad("before", width) + pad("after", width) + pad("explains", width) + pad("sigma", 8) + "  function\n")
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
		write(pad(d.amount(c.SelfBefore), width) + pad(d.amount(c.SelfAfter), width) + pad(signedPercent(c.Explains), width) +
			pad(d.amount(c.Before), width) + pad(d.amount(c.After), width) + pad(signedPercent(c.ExplainsBelow), width) + pad(by, 8) +
			"  " + clean(shortened(c.Function.Place(), mostName)) + "\n")
	}
	if shown == 0 {
		write("No function changed by more than chance would do.\n")
	}
	if left := len(changes) - noise - shown; left > 0 {
		write(plural(left, "more function", "more functions") + "\n")
	}
	if noise > 0 {
		write(plural(noise, "function", "functions") + " changed by no more than chance may do with so many samples (under 95% confidence)\n")
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

// WriteChangesJSON writes one object: the norm, and the functions ranked as WriteChanges ranks them, with those that chance may have
// changed behind them. What is not known is null.
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
		Said      string       `json:"normalisation"`
		Before    side         `json:"before"`
		After     side         `json:"after"`
		Functions []jsonChange `json:"functions"`
		More      int          `json:"more"`
	}{d.Norm.Per, d.Said, side{d.whole[0], known(d.samples[0]), 1 / d.scale[0]}, side{d.whole[1], known(d.samples[1]), 1 / d.scale[1]}, []jsonChange{}, 0}
	for i, c := range d.Changes() {
		if most > 0 && i >= most {
			out.More++
			continue
		}
		out.Functions = append(out.Functions, jsonChange{c.Function.Name, c.Function.Module, c.SelfBefore, c.SelfAfter, c.Before, c.After, c.Explains,
			c.ExplainsBelow, known(c.Sigmas), known(c.SigmasBelow), known(c.Confidence)})
	}
	return json.NewEncoder(w).Encode(out)
}
