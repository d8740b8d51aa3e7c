package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"culprit/fleet"
	"culprit/measure"
	"culprit/view"
)

// fleetColumns are the columns of the quantities of package fleet, by their ID.
func fleetColumns() []view.Column {
	out := []view.Column{}
	widths := map[string]view.Column{
		"cpu":             {Name: "cpu_util", Head: "%CPU", Show: view.Percent, Decimals: 1, Width: 5},
		"memory":          {Name: "memory_util", Head: "%Mem", Show: view.Percent, Decimals: 1, Width: 5},
		"disk":            {Name: "disk_util", Head: "%Disk", Show: view.Percent, Decimals: 1, Width: 5},
		"rx":              {Name: "rx_bytes_per_s", Head: "rMbit/s", Show: view.MbitOfB, Decimals: 1, Width: 8},
		"tx":              {Name: "tx_bytes_per_s", Head: "wMbit/s", Show: view.MbitOfB, Decimals: 1, Width: 8},
		"retransmits":     {Name: "retransmits_per_s", Head: "retr/s", Decimals: 1, Width: 6},
		"drops":           {Name: "drops_per_s", Head: "drop/s", Decimals: 1, Width: 6},
		"pressure_cpu":    {Name: "pressure_cpu", Head: "pcpu", Show: view.Percent, Decimals: 1, Width: 5, MinWidth: 90},
		"pressure_memory": {Name: "pressure_memory", Head: "pmem", Show: view.Percent, Decimals: 1, Width: 5, MinWidth: 90},
		"pressure_io":     {Name: "pressure_io", Head: "pio", Show: view.Percent, Decimals: 1, Width: 5, MinWidth: 90},
	}
	for _, q := range fleet.Quantities() {
		c := widths[q.ID]
		c.Help = q.Verb
		out = append(out, c)
	}
	return out
}

// Fleet returns the table of the hosts of an engine: findings first, then those that differ from
// the others, then those that don't report. The lines below a row, at most width columns wide, are
// its findings and differences.
func Fleet(o *fleet.Overview, width int) *view.Table {
	t := &view.Table{View: "hosts", Notes: o.Notes, Columns: []view.Column{
		{Name: "host", Head: "Host", Left: true, Width: 16, Help: "name of the machine in the engine"},
	}}
	t.Over = measure.Interval{Start: o.At.Add(-o.Over), End: o.At}
	first := len(t.Columns)
	t.Columns = append(t.Columns, fleetColumns()...)
	behind := len(t.Columns)
	t.Columns = append(
		t.Columns,
		view.Column{Name: "finding", Help: "first finding of its newest diagnosis"},
		view.Column{Name: "findings", Help: "number of findings"},
		view.Column{Name: "apart", Help: "how it differs from the other hosts"},
		view.Column{Name: "silent", Help: "when its newest sample was sent, if it does not report"},
		view.Column{Name: "labels", Help: "its other labels in the engine"},
	)
	outliers := o.Outliers()
	apart := make([][]string, len(o.Hosts))
	for _, n := range outliers {
		apart[n.Host] = append(apart[n.Host], o.Describe(n))
	}
	for _, i := range o.Order(outliers) {
		h := &o.Hosts[i]
		r := view.Row{Key: h.Name, Cells: make([]view.Cell, len(t.Columns))}
		for c := range r.Cells {
			r.Cells[c] = view.Cell{Kind: view.IsNull}
		}
		r.Cells[0] = view.T(h.Name)
		for k, v := range h.Values {
			r.Cells[first+k] = view.N(v)
		}
		below := []string{}
		if n := len(h.Findings); n > 0 {
			worst := h.Findings[0].String()
			r.Cells[behind], r.Cells[behind+1] = view.T(worst), view.N(float64(n))
			if n > 1 {
				worst += fmt.Sprintf(" (and %d more)", n-1)
			}
			below = append(below, worst)
		} else if h.Reports {
			r.Cells[behind+1] = view.N(0)
		}
		if len(apart[i]) > 0 {
			text := strings.Join(apart[i], "; ")
			r.Cells[behind+2] = view.T(text)
			below = append(below, "unlike the others: "+text)
		}
		if !h.Reports {
			r.Cells[behind+3] = view.T(silence(h, o.At))
			below = append(below, "silent: "+silence(h, o.At))
		}
		r.Cells[behind+4] = view.TOrNull(labelText(h.Labels))
		for _, line := range below {
			r.Details += indented(view.Clean(line), width)
		}
		t.Rows = append(t.Rows, r)
	}
	t.Title = fmt.Sprintf("%d of %d hosts reported", o.Reporting(), len(o.Hosts))
	return t
}

// silence describes since when a host sends nothing.
func silence(h *fleet.Host, at measure.Time) string {
	if h.Newest == 0 {
		return "no sample within 5 minutes, one within a day"
	}
	return fmt.Sprintf("its newest sample is %v old",
		at.Sub(h.Newest).AsDuration().Round(time.Second))
}

// labelText returns labels as "cluster=a region=b", sorted.
func labelText(labels map[string]string) string {
	var all []string
	for k, v := range labels {
		all = append(all, k+"="+v)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
