package fullscreen

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"culprit/view"
	"culprit/view/term/output"

	"github.com/gdamore/tcell/v2"
)

// keyHelp returns the list of keys.
func keyHelp() []string {
	return []string{
		"Tab, 1..9 0      choose a tool",
		"Up Down PgUp PgDn Home End   choose a row",
		"Enter            open the row",
		"Esc, Backspace   clear the filter, or go back",
		"Left Right       choose the column to sort by",
		"r                reverse the order",
		"a l              idle rows; long rows: priority, size, time (ps)",
		"/                filter rows by a text",
		"Space            pause",
		"+ -              longer or shorter interval",
		"< >              earlier, later (with --at)",
		"q, Ctrl-C        end",
	}
}

// draw draws the whole screen.
func (v *View) draw() {
	s := v.screen
	s.Clear()
	width, height := s.Size()
	plain := tcell.StyleDefault
	bold, dim, mark := plain.Bold(true), plain.Dim(true), plain.Reverse(true)
	put := func(x, y int, text string, style tcell.Style) int {
		for _, r := range text {
			if x >= width || y >= height {
				break
			}
			s.SetContent(x, y, r, nil, style)
			x++
		}
		return x
	}

	x := put(0, 0, "culprit ", bold)
	for i, t := range tabs() {
		style := plain
		if i == v.tab {
			style = mark
		}
		label := t.tool
		if i < 10 { // the others have no digit
			label = fmt.Sprintf("%d %s", (i+1)%10, t.tool)
		}
		x = put(x, 0, label, style)
		x = put(x, 0, " ", plain)
	}
	put(0, 1, string(output.Truncate([]byte(v.summaryLine()), 0, max(0, width))), plain)

	l := v.current()
	var path []string
	for _, step := range v.stack {
		path = append(path, step.title)
	}
	x = put(0, 2, view.Clean(strings.Join(path, " > ")), bold)
	if v.Replay != nil {
		end := v.End.AsTime().Local().Format(time.DateTime)
		x = put(x, 2, fmt.Sprintf("  %v to %s", v.Step, end), mark)
	} else {
		x = put(x, 2, fmt.Sprintf("  every %v", v.Step), dim)
	}
	if v.paused {
		x = put(x, 2, "  paused", mark)
	}
	if v.editing || l.filter != "" {
		x = put(x, 2, "  filter: "+view.Clean(l.filter), plain)
		if v.editing {
			put(x, 2, "_", mark)
		}
	}

	last := height - 1
	put(0, last, "? keys  q end  Enter open  / filter  arrows sort", dim)
	switch {
	case v.help:
		for i, k := range keyHelp() {
			put(2, 4+i, k, plain)
		}
	case v.failed != nil:
		put(0, 4, view.Clean(v.failed.Error()), plain)
	case v.table == nil:
		put(0, 4, "measuring ...", dim)
	default:
		if n := len(v.table.Notes); n > 0 {
			put(0, last-1, "note: "+view.Clean(v.table.Notes[0]), dim)
			if n > 1 {
				put(0, last-1, fmt.Sprintf("%d notes: %s", n, view.Clean(v.table.Notes[0])), dim)
			}
		}
		top := 3
		if v.table.Title != "" {
			put(0, top, view.Clean(v.table.Title), dim)
			top++
		}
		v.drawTable(put, top, last-1, width)
	}
	s.Show()
}

// drawTable draws the table from line top up to, but not including, bottom.
func (v *View) drawTable(
	put func(x, y int, text string, style tcell.Style) int, top, bottom, width int,
) {
	plain := tcell.StyleDefault
	columns, rows, l := v.columns(width), v.rows(), v.current()
	widths, words := make([]int, len(columns)), make([]bool, len(columns))
	texts := make([][]string, len(rows))
	for k, i := range columns {
		c := v.table.Columns[i]
		widths[k], words[k] = max(c.Width, utf8.RuneCountInString(c.Head)), c.Left
	}
	for r, row := range rows {
		texts[r] = make([]string, len(columns))
		for k, i := range columns {
			text := v.table.Columns[i].Format(row.Cells[i])
			if k == 0 && row.Label != "" {
				text = view.Clean(row.Label)
			}
			texts[r][k] = text
			words[k] = words[k] || row.Cells[i].Kind == view.IsText
			widths[k] = max(widths[k], min(utf8.RuneCountInString(text), 40))
		}
	}
	v.narrow(columns, widths, words, width)
	line := func(y int, text func(k int) string, style func(k int) tcell.Style) int {
		x := 0
		for k, i := range columns {
			t, free := text(k), width-x
			switch {
			case words[k]:
				t = string(output.Truncate([]byte(t), 0, max(0, min(widths[k], free))))
			case free < widths[k]: // never cut a number
				return x
			}
			pad := strings.Repeat(" ", max(0, widths[k]-utf8.RuneCountInString(t)))
			if v.table.Columns[i].Left {
				t += pad
			} else {
				t = pad + t
			}
			x = put(x, y, t, style(k))
			x = put(x, y, " ", plain)
		}
		return x
	}
	line(
		top,
		func(k int) string { return v.table.Columns[columns[k]].Head },
		func(k int) tcell.Style {
			c := v.table.Columns[columns[k]]
			if l.sort != "" && (c.Name == l.sort || c.Head == l.sort) {
				return plain.Bold(true).Reverse(true)
			}
			return plain.Bold(true).Underline(true)
		},
	)
	v.page = max(1, bottom-top-1)
	at := v.cursor(rows)
	if at < v.scroll {
		v.scroll = at
	}
	if at >= v.scroll+v.page {
		v.scroll = at - v.page + 1
	}
	v.scroll = max(0, min(v.scroll, len(rows)-v.page))
	for y := 0; y < v.page && v.scroll+y < len(rows); y++ {
		r := v.scroll + y
		style := plain
		if r == at {
			style = style.Reverse(true)
		}
		x := line(
			top+1+y, func(k int) string { return texts[r][k] },
			func(int) tcell.Style { return style },
		)
		if rows[r].Remark != "" {
			put(x, top+1+y, "<- "+view.Clean(rows[r].Remark), plain.Bold(true))
		}
	}
	if len(rows) == 0 {
		put(0, top+1, "nothing to show", plain.Dim(true))
	}
}

// shortName is the smallest width to which the column of a name is narrowed. The kernel keeps 15
// bytes of a command name.
const shortName = 15

// narrow shrinks columns that long names have widened, until the table fits the screen.
func (v *View) narrow(columns, widths []int, words []bool, width int) {
	over := len(widths) - 1 - width
	for _, w := range widths {
		over += w
	}
	for k, i := range columns {
		if c := &v.table.Columns[i]; words[k] && over > 0 {
			less := min(
				over, max(0, widths[k]-max(c.Width, utf8.RuneCountInString(c.Head), shortName)),
			)
			widths[k], over = widths[k]-less, over-less
		}
	}
}

// summaryLine returns the line that summarizes the machine.
func (v *View) summaryLine() string {
	if v.summary == nil {
		return ""
	}
	row := &v.summary.Rows[0]
	var out []string
	for _, name := range []string{"cpu_util", "memory_util", "disk_util", "network_util"} {
		i := v.summary.Column(name)
		unit := " %"
		value := v.summary.Columns[i].Format(row.Cells[i])
		if value == "-" {
			unit = ""
		}
		out = append(out, v.summary.Columns[i].Head[1:]+" "+value+unit)
	}
	out = append(out, "load "+v.summary.Text(row, "load_1m"))
	if e := v.summary.Text(row, "errors_per_s"); e != "" && strings.Trim(e, "0.") != "" {
		out = append(out, "errors "+e+"/s")
	}
	return strings.Join(out, "   ")
}
