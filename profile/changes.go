package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"

	"culprit/measure"
)

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

// WriteChanges writes the functions that explain most of the difference, at most limit of them; 0
// means all. The error is the writer's.
func WriteChanges(w io.Writer, d *Diff, limit int) error {
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
		if c.Noise() || limit > 0 && shown == limit {
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
		self := pad(d.amount(c.SelfBefore), width) + pad(d.amount(c.SelfAfter), width) +
			pad(signedPercent(c.Explains), width)
		below := pad(d.amount(c.Before), width) + pad(d.amount(c.After), width) +
			pad(signedPercent(c.ExplainsBelow), width)
		name := clean(shortened(c.Function.Qualified(), maxName))
		write(self + below + pad(by, 8) + "  " + name + "\n")
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

// ChangesJSON is what WriteChangesJSON writes.
type ChangesJSON struct {
	Format    int          `json:"format"`
	Per       string       `json:"normalised_per"`
	NormText  string       `json:"normalisation"`
	Before    SideJSON     `json:"before"`
	After     SideJSON     `json:"after"`
	Functions []ChangeJSON `json:"functions"`
	More      int          `json:"more"` // functions that were left out
}

// SideJSON is one of the compared profiles.
type SideJSON struct {
	Amount  float64  `json:"amount"`
	Samples *float64 `json:"samples"` // nil: unknown
	Divided float64  `json:"divided_by"`
}

// ChangeJSON is one function of ChangesJSON. Amounts are normalised; nil is unknown.
type ChangeJSON struct {
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
func WriteChangesJSON(w io.Writer, d *Diff, limit int) error {
	known := func(v float64) *float64 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		return &v
	}
	out := ChangesJSON{
		Format: 1, Per: d.Norm.Per, NormText: d.NormText, Functions: []ChangeJSON{},
		Before: SideJSON{d.whole[0], known(d.samples[0]), 1 / d.scale[0]},
		After:  SideJSON{d.whole[1], known(d.samples[1]), 1 / d.scale[1]},
	}
	for i, c := range d.Changes() {
		if limit > 0 && i >= limit {
			out.More++
			continue
		}
		out.Functions = append(
			out.Functions,
			ChangeJSON{c.Function.Name, c.Function.Module, c.SelfBefore, c.SelfAfter, c.Before,
				c.After, c.Explains, c.ExplainsBelow, known(c.Sigmas), known(c.SigmasBelow),
				known(c.Confidence)},
		)
	}
	b, err := measure.MarshalJSON(out)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
