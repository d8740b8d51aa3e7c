package collecttest

import (
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/measure"
)

// Ticker runs one collector tick by tick.
type Ticker struct {
	t       testing.TB
	Reading collect.Reading
	Out     *collect.Out
	words   *collect.Dictionary
	ticks   int
	Notes   []string
}

// OpenTicker opens the collector for the statistics ids without breakdown, or for all if ids is
// empty.
func OpenTicker(t testing.TB, c collect.Collector, env *collect.Env, ids ...string) *Ticker {
	t.Helper()
	want := collect.Want{}
	var stats []measure.Stat
	for _, st := range c.Stats() {
		if len(ids) == 0 {
			want[st.ID] = map[string]bool{}
			stats = append(stats, st)
		}
		for _, id := range ids {
			if id == string(st.ID) {
				want[st.ID] = map[string]bool{}
				stats = append(stats, st)
			}
		}
	}
	if len(stats) < max(1, len(ids)) {
		t.Fatalf("%T lacks some of %v", c, ids)
	}
	r, err := c.Open(env, want)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	words := collect.NewDictionary()
	return &Ticker{t: t, Reading: r, words: words, Out: collect.NewOut(stats, words, env.SinceBoot)}
}

// Read takes one reading.
func (k *Ticker) Read() []*measure.Batch {
	k.t.Helper()
	k.words.StartTick()
	k.Out.Start(k.ticks == 0, time.Now())
	k.ticks++
	if err := k.Reading.Read(k.Out); err != nil {
		k.t.Fatal(err)
	}
	return k.Out.Finish(nil)
}

// Rows takes one reading and returns its rows, keyed by "statistic label,label". It sets Notes.
func (k *Ticker) Rows() map[string]float64 {
	k.t.Helper()
	rows := map[string]float64{}
	k.Notes = nil
	for _, b := range k.Read() {
		for i := range b.Values {
			var sb strings.Builder
			sb.WriteString(string(b.Stat))
			for j, l := range b.Key(i) {
				sb.WriteByte(" ,"[min(j, 1)])
				sb.WriteString(b.Labels[l])
			}
			if _, twice := rows[sb.String()]; twice {
				k.t.Errorf("two rows of %s", sb.String())
			}
			rows[sb.String()] = b.Values[i]
		}
		for _, n := range b.Notes {
			k.Notes = append(k.Notes, string(b.Stat)+": "+n)
		}
	}
	return rows
}

// UntilRows takes readings until f returns true for one. It fails the test after 20 seconds.
func UntilRows(t testing.TB, k *Ticker, what string, f func(map[string]float64) bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if f(k.Rows()) {
			return
		}
		time.Sleep(20 * time.Millisecond) // poll interval
	}
	t.Fatal("waited for " + what)
}
