package fullscreen

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"culprit/measure"
	"culprit/view"

	"github.com/gdamore/tcell/v2"
)

// busy is a machine with two processes, and a thread, that ticks as fast as it is looked at.
type busy struct{}

// Parse parses a query.
func (b *busy) Parse(query string) (measure.Query, error) { return measure.ParseQuery(query) }

func (b *busy) Watch(
	ctx context.Context, queries []measure.Query, each func(*measure.Tick) error,
) error {
	rows := map[measure.StatID][][]string{
		"process.cpu": {{"1", "init", "usr"}, {"812", "nginx", "usr"}},
		"thread.cpu": {
			{"812", "nginx", "812", "nginx", "usr"},
			{"812", "nginx", "813", "worker", "usr"},
		},
		"cache.entries": {{"", "dentry"}},
	}
	for n := 1; ctx.Err() == nil; n++ {
		start := measure.Time(n) * 1e9
		tick := &measure.Tick{Over: measure.Interval{Start: start, End: start + 1e9}}
		for _, q := range queries {
			a := &measure.Answer{
				Query:   q,
				Kind:    measure.Delta,
				Sparse:  true,
				Start:   start,
				Step:    measure.Second,
				Elapsed: []measure.Span{measure.Second},
			}
			for i, words := range rows[q.Stat] {
				s := measure.Series{Values: []float64{float64(i+1) / 10}}
				for _, w := range words {
					s.Key = append(s.Key, measure.Label(len(a.Labels)))
					a.Labels = append(a.Labels, w)
				}
				a.Series = append(a.Series, s)
			}
			tick.Answers = append(tick.Answers, a)
		}
		if err := each(tick); err != nil {
			return err
		}
	}
	return nil
}

// glass is a screen whose text can be read from outside while it is being drawn on.
type glass struct {
	tcell.SimulationScreen
	mu    sync.Mutex
	shown string
}

// Show shows what was drawn, and keeps it as text.
func (g *glass) Show() {
	g.SimulationScreen.Show()
	cells, width, _ := g.GetContents()
	var b strings.Builder
	for i, c := range cells {
		if i%width == 0 {
			b.WriteByte('\n')
		}
		b.WriteString(string(c.Runes))
	}
	g.mu.Lock()
	g.shown = b.String()
	g.mu.Unlock()
}

// until waits for the screen to show all the texts and none of those that begin with "!".
func until(t *testing.T, g *glass, texts ...string) {
	t.Helper()
	shown := ""
	deadline := time.Now().Add(10 * time.Second)
	for ; time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		g.mu.Lock()
		shown = g.shown
		g.mu.Unlock()
		good := shown != ""
		for _, want := range texts {
			not, is := strings.CutPrefix(want, "!")
			good = good && strings.Contains(shown, not) != is
		}
		if good {
			return
		}
	}
	t.Fatalf("no %q on the screen:\n%s", texts, shown)
}

func TestTopSortsFiltersAndDrills(t *testing.T) {
	s := &glass{SimulationScreen: tcell.NewSimulationScreen("UTF-8")}
	s.SetSize(100, 20)
	done := make(chan error, 1)
	v := &View{Machine: &busy{}, Step: measure.Second}
	go func() { done <- Run(context.Background(), v, s) }()
	key := func(k tcell.Key) { s.InjectKey(k, 0, tcell.ModNone) }
	text := func(keys string) {
		for _, r := range keys {
			s.InjectKey(tcell.KeyRune, r, tcell.ModNone)
		}
	}
	until(t, s, "1 ps", "%USR", "nginx", "init", "every 1s")
	text("/ngi")
	until(t, s, "filter: ngi_", "nginx", "!init")
	key(tcell.KeyEnter)
	until(t, s, "filter: ngi", "!filter: ngi_")
	key(tcell.KeyEnter)
	until(t, s, "ps > threads of nginx (812)", "nginx/worker", "TID")
	key(tcell.KeyEscape)
	until(t, s, "!threads of", "filter: ngi")
	key(tcell.KeyEscape)
	until(t, s, "init", "!filter: ")
	text("+")
	until(t, s, "every 2s")
	text(" ")
	until(t, s, "paused")
	text("?")
	until(t, s, "choose a tool")
	text("x")
	text("0")
	until(t, s, "dentry", "!paused")
	key(tcell.KeyTab) // df, the only tool without a digit
	until(t, s, "Mounted on", "caches df", "!1 df")
	key(tcell.KeyTab)
	until(t, s, "%USR")
	text("q")
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("q did not end it")
	}
}

// Flags of ps are given at the start, and turned on and off by keys.
func TestTopShowsLongRows(t *testing.T) {
	s := &glass{SimulationScreen: tcell.NewSimulationScreen("UTF-8")}
	s.SetSize(120, 20)
	done := make(chan error, 1)
	v := &View{Machine: &busy{}, Step: measure.Second,
		Processes: view.Options{"long": {""}, "pid": {"812"}}}
	go func() { done <- Run(context.Background(), v, s) }()
	press := func(r rune) { s.InjectKey(tcell.KeyRune, r, tcell.ModNone) }
	until(t, s, "VIRT", "nginx", "!init")
	press('l')
	until(t, s, "!VIRT", "nginx", "!init")
	press('3') // nic has no long rows
	press('l')
	until(t, s, "rKB/s")
	press('1')
	until(t, s, "!VIRT", "nginx")
	press('l')
	until(t, s, "VIRT", "nginx", "!init")
	press('q')
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A name that is longer than its column is cut, and the numbers after it are not. A number that
// does not fit is not drawn.
func TestTopCutsNoNumbers(t *testing.T) {
	s := &glass{SimulationScreen: tcell.NewSimulationScreen("UTF-8")}
	s.SetSize(80, 20)
	table := &view.Table{
		Columns: []view.Column{{Head: "PID", Width: 7}, {Head: "Process", Width: 12, Left: true}},
	}
	row := view.Row{Cells: []view.Cell{view.I("7"), view.T("kworker/u9:5-events_unbound_and_more")}}
	for range 6 {
		table.Columns = append(table.Columns, view.Column{Head: "kB/s", Width: 8})
		row.Cells = append(row.Cells, view.N(12345678))
	}
	table.Rows = []view.Row{row}
	v := &View{screen: s, table: table, stack: []toolView{{}}}
	if err := s.Init(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		width int
		line  string
	}{
		{80, "      7 kworker/u9:5-even+ 12345678 12345678 12345678 12345678 12345678 12345678"},
		{100, "      7 kworker/u9:5-events_unbound_and_more 12345678 12345678 12345678 12345678 12345678 12345678"},
		{70, "      7 kworker/u9:5-e+ 12345678 12345678 12345678 12345678 12345678"},
		{14, "      7 kwork+"},
	} {
		s.SetSize(c.width, 20)
		v.draw()
		shown := strings.Split(s.shown, "\n")
		if got := strings.TrimRight(shown[5], " "); got != c.line {
			t.Errorf("%d columns:\n%s, want\n%s", c.width, got, c.line)
		}
	}
}

// The view of a recording shows the given second, and < and > go through time.
func TestViewOfARecording(t *testing.T) {
	s := &glass{SimulationScreen: tcell.NewSimulationScreen("UTF-8")}
	s.SetSize(100, 20)
	held := measure.Interval{Start: 1_700_000_000e9, End: 1_700_003_600e9}
	v := &View{
		Machine: &busy{},
		Step:    measure.Second,
		End:     held.End,
		Held:    func() measure.Interval { return held },
		Replay:  func(measure.Interval) Machine { return &busy{} },
	}
	done := make(chan error, 1)
	go func() { done <- Run(t.Context(), v, s) }()
	at := func(step string, before measure.Span) string {
		return fmt.Sprintf("%s to %s", step, held.End.Add(-before).AsTime().Local().Format(time.DateTime))
	}
	until(t, s, at("1s", 0), "%USR")
	for _, k := range []struct {
		keys, want string
	}{
		{">", at("1s", 0)},
		{"<", at("1s", measure.Second)},
		{"<+", at("2s", 2*measure.Second)},
		{"<", at("2s", 4*measure.Second)},
		{"---->", at("1s", 3*measure.Second)},
	} {
		for _, key := range k.keys {
			s.InjectKey(tcell.KeyRune, key, tcell.ModNone)
		}
		until(t, s, k.want)
	}
	s.InjectKey(tcell.KeyRune, 'q', tcell.ModNone)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
