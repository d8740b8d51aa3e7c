package report

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"culprit/diagnose"
	"culprit/fleet"
	"culprit/measure"
	"culprit/view"
	"culprit/view/classic"
)

// Host holds the reply of one server for an interval.
type Host struct {
	Address string
	Name    string      // host name that the server reports; "": it never replied
	Failure string      // why it did not answer; "": it answered
	Frame   *view.Frame // answers to HostQueries; nil: it did not answer
	// End of its newest second minus our time; a few seconds below 0 is normal.
	ClockAhead measure.Span

	Findings    []diagnose.Finding // of its newest diagnosis
	Diagnosed   measure.Time       // time of that diagnosis; 0: not shown
	NoDiagnosis string             // why there is no diagnosis; "": there is one
}

// hostLabels returns the name of each host. If several hosts have the same name, the address
// follows; if the name is unknown, it is the address.
func hostLabels(all []Host) []string {
	times := map[string]int{}
	for _, h := range all {
		times[h.Name]++
	}
	out := make([]string, len(all))
	for i, h := range all {
		place := h.Address
		if u, err := url.Parse(h.Address); err == nil && u.Host != "" {
			place = u.Host
		}
		switch {
		case h.Name == "":
			out[i] = place
		case times[h.Name] > 1:
			out[i] = h.Name + " at " + place
		default:
			out[i] = h.Name
		}
	}
	return out
}

// HostQueries returns the queries that are sent to each host: those of the tool use.
func HostQueries() []string { return classic.Use().Ask(nil) }

// HostDifference describes how a host differs from the others.
type HostDifference struct {
	Host  int     // index
	Text  string  // "sends 11.7 MB/s, 78 % less than the median of the 9 others, 52.6 MB/s"
	Apart float64 // robust standard deviations from the median of the others
}

// maxHostDifferences is the most differences that are shown of a host.
const maxHostDifferences = 2

// hostQuantity is a quantity by which hosts are compared. Differences below least are ignored.
type hostQuantity struct {
	least float64
	verb  string
	value func(h *Host) float64
	text  func(v float64) string
}

func hostQuantities() []hostQuantity {
	share := func(column, verb string, least float64) hostQuantity {
		return hostQuantity{
			least,
			verb,
			func(h *Host) float64 { return h.cell(column) },
			func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) },
		}
	}
	bytes := func(direction, verb string) hostQuantity {
		return hostQuantity{
			1e6,
			verb,
			func(h *Host) float64 { return h.busiestDevice(direction) },
			func(v float64) string { return threeDigits(v/1e6) + " MB/s" },
		}
	}
	return []hostQuantity{
		bytes("tx", "its busiest interface sends"),
		bytes("rx", "its busiest interface receives"),
		share("cpu_util", "CPU utilization", 0.1),
		share("memory_util", "memory in use", 0.1),
		share("disk_util", "utilization of its busiest disk", 0.1),
		share("pressure_cpu", "time in which some task waits for a CPU", 0.1),
		share("pressure_memory", "time in which some task waits for memory", 0.05),
		share("pressure_io", "time in which some task waits for I/O", 0.1),
	}
}

// threeDigits formats a number with three digits: 0.0123, 11.7, 1234.
func threeDigits(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// cell returns a value of the tool use; NaN if unknown.
func (h *Host) cell(name string) float64 {
	if h.Frame == nil {
		return measure.NaN
	}
	t := classic.UseTable(nil, h.Frame)
	if i := t.Column(name); i >= 0 && t.Rows[0].Cells[i].Kind == view.IsNumber {
		return t.Rows[0].Cells[i].Num
	}
	return measure.NaN
}

// busiestDevice returns the bytes per second of the busiest device in a direction, without
// loopback; NaN if there is none.
func (h *Host) busiestDevice(direction string) float64 {
	if h.Frame == nil {
		return measure.NaN
	}
	nets := view.NewPivot("netns", "device")
	c := nets.Add(h.Frame.Of("net.device.bytes"), "direction", direction)
	nets.Join("info", h.Frame.Of("net.device.info"))
	most := measure.NaN
	for r := range nets.Len() {
		if v := nets.At(r, c); nets.Word(r, "info", "kind") != "loopback" && !(v <= most) &&
			v == v {
			most = v
		}
	}
	return most
}

// HostDifferences returns how hosts differ from the others, largest difference first, at most two
// per host.
func HostDifferences(all []Host) []HostDifference {
	var out []HostDifference
	for _, c := range hostQuantities() {
		values := make([]float64, len(all))
		for i := range all {
			values[i] = c.value(&all[i])
		}
		for _, n := range fleet.Apart(values, c.least) {
			text := fmt.Sprintf("%s %s, %s the median of the %d others, %s", c.verb,
				c.text(values[n.Host]), fleet.Versus(values[n.Host], n.Median), n.Others,
				c.text(n.Median))
			out = append(out, HostDifference{n.Host, text, n.Apart()})
		}
	}
	slices.SortStableFunc(out, func(a, b HostDifference) int {
		return cmp.Compare(b.Apart, a.Apart)
	})
	count := map[int]int{}
	return slices.DeleteFunc(out, func(n HostDifference) bool {
		count[n.Host]++
		return count[n.Host] > maxHostDifferences
	})
}

// clockAhead and clockBehind are the clock differences from which on there is a note. The newest
// recorded second is always a few seconds old.
const clockAhead, clockBehind = 2 * measure.Second, 10 * measure.Second

// Hosts returns the table of machines: one row each with the columns of the tool use. The lines
// below a row, at most width columns wide, are its findings and differences.
func Hosts(all []Host, width int) *view.Table {
	t := &view.Table{View: "hosts", Columns: []view.Column{
		{
			Name:  "host",
			Head:  "Host",
			Left:  true,
			Width: 12,
			Help:  "name of the machine, as its server reports it",
		},
		{Name: "address", Help: "of its server"},
	}}
	first := len(t.Columns)
	blank := classic.UseTable(nil, &view.Frame{})
	for _, c := range blank.Columns {
		if c.Left { // the lines below the row have these names
			c.Head = ""
		}
		t.Columns = append(t.Columns, c)
	}
	behind := len(t.Columns)
	t.Columns = append(
		t.Columns,
		view.Column{Name: "finding", Help: "first finding of its newest diagnosis"},
		view.Column{Name: "findings", Help: "number of findings"},
		view.Column{
			Name: "apart",
			Help: "how it differs from the other hosts",
		},
		view.Column{Name: "silent", Help: "why it did not answer"},
	)
	apart := make([][]string, len(all))
	for _, n := range HostDifferences(all) {
		apart[n.Host] = append(apart[n.Host], n.Text)
	}
	heard, labels := 0, hostLabels(all)
	for i := range all {
		h := &all[i]
		r := view.Row{Key: h.Address, Cells: make([]view.Cell, len(t.Columns))}
		for c := range r.Cells {
			r.Cells[c] = view.Cell{Kind: view.IsNull}
		}
		r.Cells[0], r.Cells[1] = view.T(labels[i]), view.T(h.Address)
		var below []string
		if h.Frame == nil {
			r.Cells[behind+3] = view.TOrNull(h.Failure)
			below = append(below, "no answer: "+h.Failure)
		} else {
			heard++
			use := classic.UseTable(nil, h.Frame)
			for c := range use.Columns {
				same := func(k view.Column) bool { return k.Name == use.Columns[c].Name }
				if at := slices.IndexFunc(t.Columns[first:behind], same); at >= 0 {
					r.Cells[first+at] = use.Rows[0].Cells[c]
				}
			}
			switch {
			case h.NoDiagnosis != "":
				below = append(below, "not diagnosed: "+h.NoDiagnosis)
			case len(h.Findings) > 0:
				worst := strings.ToUpper(string(h.Findings[0].Severity)) + " " + h.Findings[0].Claim
				r.Cells[behind], r.Cells[behind+1] = view.T(worst), view.N(float64(len(h.Findings)))
				if n := len(h.Findings); n > 1 {
					worst += fmt.Sprintf(" (and %d more)", n-1)
				}
				if h.Diagnosed != 0 {
					worst = h.Diagnosed.AsTime().Local().Format("15:04:05 ") + worst
				}
				below = append(below, worst)
			default:
				r.Cells[behind+1] = view.N(0)
			}
			if len(apart[i]) > 0 {
				text := strings.Join(apart[i], "; ")
				r.Cells[behind+2] = view.T(text)
				below = append(below, "unlike the others: "+text)
			}
			switch off := max(h.ClockAhead, -h.ClockAhead).AsDuration().Round(time.Second); {
			case h.ClockAhead >= clockAhead:
				t.Notes = append(
					t.Notes, fmt.Sprintf("the clock of %s is %v ahead of this one", labels[i], off),
				)
			case h.ClockAhead <= -clockBehind:
				t.Notes = append(
					t.Notes,
					fmt.Sprintf(
						"the newest second of %s is %v old: it has stopped recording, "+
							"or its clock is behind",
						labels[i], off,
					),
				)
			}
		}
		for _, line := range below {
			r.Details += indented(view.Clean(line), width)
		}
		t.Rows = append(t.Rows, r)
	}
	t.Title = fmt.Sprintf("%d of %d hosts reported", heard, len(all))
	return t
}

// indented returns a text as indented lines that are wrapped at the width.
func indented(text string, width int) string {
	const indent = "    "
	var b strings.Builder
	at := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case at == 0:
			b.WriteString(indent)
			at = len(indent)
		case at+1+len(word) > width:
			b.WriteString("\n" + indent + "  ")
			at = len(indent) + 2
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String() + "\n"
}
