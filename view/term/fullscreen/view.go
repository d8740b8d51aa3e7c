// Package fullscreen is the view of `culprit top`: one tool at a time on the whole terminal, with
// keys to choose, sort, filter and open rows.
package fullscreen

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"culprit/measure"
	"culprit/view"
	"culprit/view/classic"
	"culprit/view/term/output"

	"github.com/gdamore/tcell/v2"
)

// Machine is the machine that the view measures.
type Machine interface {
	measure.Watcher
	// Parse parses and checks a query.
	Parse(query string) (measure.Query, error)
}

// tab is one of the tools that the view offers.
type tab struct {
	tool    string
	options view.Options
}

func tabs() []tab {
	return []tab{
		{"ps", nil},
		{"flows", view.Options{"by": {"process"}}},
		{"nic", nil},
		{"disk", nil},
		{"cpu", nil},
		{"irq", nil},
		{"mem", nil},
		{"tcp", nil},
		{"link", nil},
		{"caches", nil},
		{"df", nil},
	}
}

// toolView is one level of the stack of views: a tool with its options.
type toolView struct {
	tool    *view.Tool
	options view.Options
	title   string
	filter  string
	sort    string // column; "": the order of the tool
	reverse bool
	cursor  string // Key of the row under the cursor
}

// View is the state of the screen. The caller sets the exported fields. One goroutine uses it.
type View struct {
	Machine Machine // of the first interval
	Step    measure.Span
	// Processes are the options of the tool ps, with which the view begins; nil: none.
	Processes view.Options

	// For a recording: Replay makes the machine of a time range, End is the end of the first
	// interval, and Held returns the recorded time range. Replay is nil for a live view.
	Replay func(measure.Interval) Machine
	End    measure.Time
	Held   func() measure.Interval

	screen tcell.Screen
	tab    int
	stack  []toolView

	table   *view.Table // nil before the end of the first interval
	summary *view.Table
	failed  error

	paused, editing, help bool
	scroll, page          int // first visible row, number of visible rows
	run                   int // number of the current watch; ticks of older ones are ignored
	stop                  context.CancelFunc
}

// minRecordedStep is the shortest interval of a recording.
const minRecordedStep = measure.Second

// tickResult is sent by a watch to the screen.
type tickResult struct {
	run  int
	tick *measure.Tick
	err  error
}

// Run shows the view on the screen until the user or the context ends it, and then restores the
// terminal. The error says that the terminal can't be used.
func Run(ctx context.Context, v *View, screen tcell.Screen) error {
	if err := screen.Init(); err != nil {
		return fmt.Errorf("open the terminal: %w", err)
	}
	defer screen.Fini()
	v.screen = screen
	v.openTab(0)
	events := make(chan tcell.Event)
	quit := make(chan struct{})
	defer close(quit)
	go screen.ChannelEvents(events, quit)
	ticks := make(chan tickResult)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v.watch(ctx, ticks)
	for {
		v.draw()
		before := v.run
		select {
		case <-ctx.Done():
			return nil
		case t := <-ticks:
			if t.run == v.run && !v.paused {
				v.showTick(t)
			}
		case e, ok := <-events:
			if !ok || v.handleEvent(e) {
				return nil
			}
		}
		if v.run != before {
			v.watch(ctx, ticks)
		}
	}
}

func toolNamed(name string) *view.Tool {
	for _, t := range classic.All() {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// openTab shows a tab and clears the stack.
func (v *View) openTab(n int) {
	t := tabs()[n]
	v.tab, v.stack = n, nil
	options := t.options
	if t.tool == "ps" {
		options = v.Processes
	}
	v.push(toolView{tool: toolNamed(t.tool), options: options, title: t.tool})
}

// push shows another tool. The main loop starts its watch when run has changed.
func (v *View) push(l toolView) {
	v.stack = append(v.stack, l)
	v.restart()
}

func (v *View) restart() {
	v.table, v.failed, v.scroll, v.paused = nil, nil, 0, false
	v.run++
}

func (v *View) current() *toolView { return &v.stack[len(v.stack)-1] }

// watch starts to measure the queries of the current tool and of the summary line.
func (v *View) watch(ctx context.Context, out chan<- tickResult) {
	if v.stop != nil {
		v.stop()
	}
	ctx, v.stop = context.WithCancel(ctx)
	run, l := v.run, v.current()
	if v.Replay != nil {
		v.Machine = v.Replay(measure.Interval{Start: v.End.Add(-v.Step), End: v.End})
	}
	var queries []measure.Query
	for _, text := range slices.Concat(l.tool.Ask(l.options), classic.Use().Ask(nil)) {
		q, err := v.Machine.Parse(text)
		if err != nil {
			v.failed = err
			return
		}
		q.Step = v.Step
		queries = append(queries, q)
	}
	machine := v.Machine // the field may change before this goroutine runs
	go func() {
		send := func(t tickResult) {
			select {
			case out <- t:
			case <-ctx.Done():
			}
		}
		err := machine.Watch(ctx, queries, func(t *measure.Tick) error {
			send(tickResult{run: run, tick: t})
			return nil
		})
		if err != nil {
			send(tickResult{run: run, err: err})
		}
	}()
}

// showTick makes the tables of a tick.
func (v *View) showTick(t tickResult) {
	if t.err != nil {
		v.failed = t.err
		return
	}
	l := v.current()
	n := len(l.tool.Ask(l.options))
	f := &view.Frame{Over: t.tick.Over, Answers: t.tick.Answers[:n]}
	v.table = l.tool.Table(l.options, f)
	width, _ := v.screen.Size()
	v.table.Over, v.table.Notes = f.Over, append(v.table.Notes, f.Notes(l.tool.MinWidth, width)...)
	for _, loss := range f.Losses() {
		v.table.Notes = append(
			v.table.Notes, fmt.Sprintf("lost: %d events: %s", loss.Events, loss.Reason),
		)
	}
	v.summary = classic.Use().
		Table(nil, &view.Frame{Over: t.tick.Over, Answers: t.tick.Answers[n:]})
}

// rows returns the filtered and sorted rows.
func (v *View) rows() []view.Row {
	if v.table == nil {
		return nil
	}
	l := v.current()
	t := *v.table
	t.Rows = nil
	want := strings.ToLower(l.filter)
	for _, r := range v.table.Rows {
		hit := want == ""
		for i, c := range r.Cells {
			hit = hit || strings.Contains(strings.ToLower(t.Columns[i].Format(c)), want)
		}
		if hit {
			t.Rows = append(t.Rows, r)
		}
	}
	if i := t.Column(l.sort); l.sort != "" && i >= 0 {
		output.SortRows(&t, i, l.reverse)
	}
	return t.Rows
}

// columns returns the indexes of the table's columns that fit the width.
func (v *View) columns(width int) []int {
	if v.table == nil {
		return nil
	}
	return output.Columns(v.table, width)
}

// handleEvent handles a key and reports whether to end.
func (v *View) handleEvent(e tcell.Event) (end bool) {
	key, ok := e.(*tcell.EventKey)
	if !ok {
		if _, resized := e.(*tcell.EventResize); resized {
			v.screen.Sync()
		}
		return false
	}
	l := v.current()
	if v.editing {
		switch key.Key() {
		case tcell.KeyEnter:
			v.editing = false
		case tcell.KeyEscape, tcell.KeyCtrlC:
			v.editing, l.filter = false, ""
		case tcell.KeyBackspace, tcell.KeyBackspace2:
			if r := []rune(l.filter); len(r) > 0 {
				l.filter = string(r[:len(r)-1])
			}
		case tcell.KeyRune:
			l.filter += string(key.Rune())
		}
		return false
	}
	if v.help {
		v.help = false
		return key.Key() == tcell.KeyCtrlC
	}
	switch key.Key() {
	case tcell.KeyCtrlC:
		return true
	case tcell.KeyEscape, tcell.KeyBackspace, tcell.KeyBackspace2:
		switch {
		case l.filter != "":
			l.filter = ""
		case len(v.stack) > 1:
			v.stack = v.stack[:len(v.stack)-1]
			v.restart()
		}
	case tcell.KeyTab:
		v.openTab((v.tab + 1) % len(tabs()))
	case tcell.KeyBacktab:
		v.openTab((v.tab + len(tabs()) - 1) % len(tabs()))
	case tcell.KeyUp:
		v.move(-1)
	case tcell.KeyDown:
		v.move(1)
	case tcell.KeyPgUp:
		v.move(-max(1, v.page-1))
	case tcell.KeyPgDn:
		v.move(max(1, v.page-1))
	case tcell.KeyHome:
		v.move(-1 << 30)
	case tcell.KeyEnd:
		v.move(1 << 30)
	case tcell.KeyLeft:
		v.sortBy(-1)
	case tcell.KeyRight:
		v.sortBy(1)
	case tcell.KeyEnter:
		v.drill()
	case tcell.KeyRune:
		return v.handleRune(key.Rune())
	}
	return false
}

func (v *View) handleRune(r rune) (end bool) {
	l := v.current()
	switch {
	case r == 'q':
		return true
	case r == '?' || r == 'h':
		v.help = true
	case r == '/':
		v.editing = true
	case r == ' ':
		v.paused = !v.paused
	case r == 'r':
		l.reverse = !l.reverse
	case r == '+' || r == '-':
		steps := []measure.Span{
			measure.Second / 4,
			measure.Second / 2,
			measure.Second,
			2 * measure.Second,
			5 * measure.Second,
			10 * measure.Second,
			30 * measure.Second,
			measure.Minute,
		}
		i, _ := slices.BinarySearch(steps, v.Step)
		i += map[rune]int{'+': 1, '-': -1}[r]
		v.Step = steps[min(max(i, 0), len(steps)-1)]
		if v.Replay != nil {
			v.Step = max(v.Step, minRecordedStep)
		}
		v.restart()
	case (r == '<' || r == '>') && v.Replay != nil:
		by := map[rune]measure.Span{'<': -v.Step, '>': v.Step}[r]
		if end, held := v.End.Add(by), v.Held(); end > held.Start && end <= held.End {
			v.End = end
			v.restart()
		}
	case r == 'a' || r == 'l':
		v.toggle(string(r))
	case r >= '0' && r <= '9':
		if n := (int(r-'0') + 9) % 10; n < len(tabs()) {
			v.openTab(n)
		}
	}
	return false
}

// toggle turns a flag of the current tool on or off. It does nothing if the tool has no flag with
// this letter.
func (v *View) toggle(letter string) {
	l := v.current()
	i := slices.IndexFunc(l.tool.Flags, func(f view.Flag) bool {
		return f.Letter == letter && f.Value == ""
	})
	if i < 0 {
		return
	}
	name, options := l.tool.Flags[i].Name, maps.Clone(l.options)
	if options == nil {
		options = view.Options{}
	}
	if options.Has(name) {
		delete(options, name)
	} else {
		options[name] = []string{""}
	}
	l.options = options
	if len(v.stack) == 1 && l.tool.Name == "ps" {
		v.Processes = options // also after another tab
	}
	v.restart()
}

// move moves the cursor by a number of rows.
func (v *View) move(by int) {
	rows := v.rows()
	if len(rows) == 0 {
		return
	}
	at := v.cursor(rows) + by
	v.current().cursor = rows[min(max(at, 0), len(rows)-1)].Key
}

// cursor returns the row of the cursor: the one with its key, else the first.
func (v *View) cursor(rows []view.Row) int {
	isCursor := func(r view.Row) bool { return r.Key == v.current().cursor }
	return max(0, slices.IndexFunc(rows, isCursor))
}

// sortBy moves the sort column by a number of columns.
func (v *View) sortBy(by int) {
	width, _ := v.screen.Size()
	shown := v.columns(width)
	if len(shown) == 0 {
		return
	}
	l := v.current()
	at := slices.IndexFunc(shown, func(i int) bool { return v.table.Columns[i].Name == l.sort })
	if at < 0 && by < 0 {
		at = 0
	}
	c := v.table.Columns[shown[(at+by+len(shown))%len(shown)]]
	if l.sort = c.Name; l.sort == "" {
		l.sort = c.Head
	}
}

// drill shows the view to which the row under the cursor leads.
func (v *View) drill() {
	rows := v.rows()
	l := v.current()
	if len(rows) == 0 || l.tool.Drill == nil {
		return
	}
	row := rows[v.cursor(rows)]
	d := l.tool.Drill(v.table, &row)
	if d == nil {
		return
	}
	v.push(
		toolView{
			tool:    toolNamed(d.Tool),
			options: d.Options,
			title:   d.Title,
			filter:  d.Filter,
			sort:    d.Sort,
		},
	)
}
