package collect

import (
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

// ticker runs one collector by hand: each tick gives the rows of one reading as "statistic label,label" to value.
type ticker struct {
	t       testing.TB
	reading Reading
	out     *Out
	words   *dictionary
	ticks   int
	notes   []string
}

func tick(t testing.TB, c Collector, env *Env, ids ...string) *ticker {
	t.Helper()
	want := Want{}
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
	words := newDictionary()
	return &ticker{t: t, reading: r, words: words, out: newOut(stats, words, env.SinceBoot)}
}

func (k *ticker) read() []*measure.Batch {
	k.t.Helper()
	k.words.startTick()
	k.out.start(k.ticks == 0, time.Now())
	k.ticks++
	if err := k.reading.Read(k.out); err != nil {
		k.t.Fatal(err)
	}
	return k.out.finish(nil)
}

func (k *ticker) rows() map[string]float64 {
	k.t.Helper()
	rows := map[string]float64{}
	k.notes = nil
	for _, b := range k.read() {
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
			k.notes = append(k.notes, string(b.Stat)+": "+n)
		}
	}
	return rows
}

// untilRows takes readings until one satisfies f.
func untilRows(t testing.TB, k *ticker, what string, f func(map[string]float64) bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if f(k.rows()) {
			return
		}
		time.Sleep(20 * time.Millisecond) // between two looks at the condition
	}
	t.Fatal("waited for " + what)
}
