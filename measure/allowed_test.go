package measure

import "testing"

// Every kind with every fold: rows add up only where each is an amount or a size, folded by adding.
func TestAllowed(t *testing.T) {
	for kind := Delta; kind <= Dists; kind++ {
		for fold := Sum; fold <= Min; fold++ {
			for _, unit := range []Unit{Bytes, Nanoseconds, Ratio, Events} {
				t.Run(kind.String()+" "+fold.String()+" "+string(unit), func(t *testing.T) {
					st := Stat{
						Kind:   kind,
						Fold:   fold,
						Unit:   unit,
						Fields: []Field{{Name: "device"}},
					}
					sum := fold == Sum && kind != Dists && (kind != Level || unit != Ratio)
					want := Allowed{
						Sum:        sum,
						Stack:      sum,
						Rate:       kind == Delta,
						Percentile: kind == Dists,
					}
					if got := st.Allowed(); got != want {
						t.Errorf("%+v, want %+v", got, want)
					}
					if got := st.AddsUp(Query{By: []string{"device"}}); got != sum {
						t.Errorf("adds up: %v, want %v", got, sum)
					}
					st.Fields[0].Overlaps = true
					if got := st.Overcounts(Query{}) != ""; got != sum {
						t.Errorf("overcounts: %v, want %v", got, sum)
					}
					if st.Signed = true; st.Allowed().Stack {
						t.Error("a stack of amounts below zero")
					}
				})
			}
		}
	}
}

func TestAddsUp(t *testing.T) {
	over := func(name string) Field { return Field{Name: name, Overlaps: true} }
	kinds := Stat{ID: "memory.size", Kind: Level, Fields: []Field{over("kind"), {Name: "node"}}}
	queues := Stat{ID: "net.qdisc.drops", Kind: Delta,
		Fields: []Field{{Name: "device"}, over("kind"), over("handle"), over("parent")}}
	latency := Stat{ID: "disk.latency", Kind: Dists, Fields: []Field{{Name: "device"}}}
	stalled := Stat{
		ID:     "pressure.time",
		Kind:   Delta,
		Fold:   Max,
		Fields: []Field{{Name: "resource"}},
	}
	for _, tt := range []struct {
		of    Stat
		query string
		adds  bool
	}{
		{kinds, `memory.size by node`, false},
		{kinds, `memory.size by kind`, false},
		{kinds, `memory.size by node where kind = "anon"`, true},
		{kinds, `memory.size by node where kind in ("anon")`, true},
		{kinds, `memory.size by node where kind in ("anon", "free")`, false},
		{queues, `net.qdisc.drops by device,parent`, false},
		{queues, `net.qdisc.drops by device where parent = "root"`, true},
		{queues, `net.qdisc.drops by device where kind = "fq"`, false},
		{latency, `disk.latency by device`, false},
		{stalled, `pressure.time by resource`, false},
	} {
		t.Run(tt.query, func(t *testing.T) {
			q, err := ParseQuery(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.of.AddsUp(q); got != tt.adds {
				t.Errorf("adds up: %v", got)
			}
		})
	}
}

func TestFoldLabel(t *testing.T) {
	for _, tt := range []struct {
		kind Kind
		fold Fold
		want string
	}{
		{Delta, Sum, "all"}, {Level, Max, "greatest of all"}, {Level, Mean, "mean of all"},
		{Level, Min, "least of all"}, {Dists, Max, "all"},
	} {
		t.Run(tt.kind.String()+" "+tt.fold.String(), func(t *testing.T) {
			st := Stat{Kind: tt.kind, Fold: tt.fold}
			if got := st.FoldLabel(); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
