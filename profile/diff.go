package profile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
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
	if before.Unit != after.Unit && (n.Per != "sample" || !sameThing(before, after)) {
		what := "only their shares can be compared"
		if !sameThing(before, after) {
			what = "they can't be compared"
		}
		return nil, fmt.Errorf("the profiles count different things, %s and %s: %s",
			clean(before.Unit), clean(after.Unit), what)
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

// sameThing reports whether the shares of two profiles can be compared: both are of time on a CPU,
// or a format without units does not say what they are of.
func sameThing(a, b *Tree) bool {
	for _, t := range []*Tree{a, b} {
		if t.Unit == "samples" && t.Samples == 0 && t.Taken == (Taken{}) {
			return true
		}
	}
	return a.Unit == b.Unit || isTimeUnit(a.Unit) && isTimeUnit(b.Unit)
}

// isTimeUnit reports whether amounts of a unit are proportional to time.
func isTimeUnit(unit string) bool {
	switch unit {
	case "samples", "ns", "us", "ms", "s", "nanoseconds", "microseconds", "milliseconds", "seconds",
		"cpu", "ticks", "cycles", "cpu-cycles", "ref-cycles", "cpu_core/cycles/",
		"cpu_atom/cycles/":
		return true
	}
	return false
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
