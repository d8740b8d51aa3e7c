package rules

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"culprit/diagnose"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// answers is a Reader from a function.
type answers func(q measure.Query) (*measure.Answer, error)

func (f answers) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) { return f(q) }

// made returns an answer with the given numbers of cells and series. Labels are from words, values
// from value.
func made(q measure.Query, cells, series int, words []string, r *rand.Rand,
	value func() float64) *measure.Answer {
	a := &measure.Answer{Query: q, Start: cannedStart, Step: measure.Second, Labels: words,
		Unit: "1"}
	if q.Stat == measure.StackSamples {
		a.Stacks = make([]bool, len(q.By))
		a.Stacks[slices.Index(q.By, "kernel")] = true
		a.Frames = []measure.Frame{{Parent: -1}}
		for n := range len(words) { // as many as words: some labels are out of range
			a.Frames = append(a.Frames,
				measure.Frame{Symbol: someFunctions[r.IntN(len(someFunctions))],
					Parent: int32(r.IntN(n+3) - 1)})
		}
		a.Frames = a.Frames[:1+r.IntN(len(a.Frames))]
	}
	for range cells {
		a.Elapsed = append(a.Elapsed, measure.Second)
	}
	for range series {
		s := measure.Series{Values: make([]float64, cells)}
		for range q.By {
			s.Key = append(s.Key, measure.Label(r.IntN(len(words))))
		}
		for c := range s.Values {
			s.Values[c] = value()
		}
		a.Series = append(a.Series, s)
	}
	return a
}

// someWords are labels that reach the branches of rules, and some that no machine should have.
var someWords = []string{"", "0", "1", "2", "eth0", "eth1", "lo", "tx", "rx", "idle", "usr", "sys",
	"soft", "iowait", "ethernet", "veth", "tap", "ethtool", "qdisc",
	"total", "available", "throttled", "nvme0n1", "disk", "read", "write", "in", "out", "10.0.0.1",
	"10.0.0.2", "server", "client", "some", "cpu", "memory", "io", "Tcp", "TcpExt",
	"RetransSegs", "OutSegs", "ListenOverflows", "ListenDrops", "conntrack", "tcp-established",
	"supported", "partner", "up", "02:00:00:00:00:01", "busy", "rwnd", "/app",
	"current", "limit", "max", "dirty", "background", "balance_dirty_pages", "forward", "back",
	"swapin", "$(reboot)\x1b[31m", "a'b;c\nd", "\xff\xfe"}

// someFunctions are functions that rules know, and some that no kernel has. Callers may be cyclic.
var someFunctions = []string{"handle_softirqs", "net_rx_action", "__inet_lookup_established",
	"do_syscall_64", "__x64_sys_rmdir", "shrink_dcache_parent", "shrink_dentry_list.isra.0",
	"kthread", "gc_worker",
	"asm_sysvec_apic_timer_interrupt", "native_queued_spin_lock_slowpath",
	"_raw_spin_unlock_irqrestore", "rep_movs_alternative", "", "bpf_prog_1",
	"a function\x1b[31m", "\xff"}

// TestNothingAccusesNobody: answers without numbers, with one cell, without cells, and refused ones
// accuse nobody, and nothing counts as checked in silence.
func TestNothingAccusesNobody(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	number := func() float64 { return math.Exp(r.NormFloat64() * 10) }
	nan := func() float64 { return math.NaN() }
	for name, reader := range map[string]answers{
		"not a number": func(q measure.Query) (*measure.Answer,
			error) {
			return made(q, 10, 8, someWords, r, nan), nil
		},
		"one cell": func(q measure.Query) (*measure.Answer,
			error) {
			return made(q, 1, 20, someWords, r, number), nil
		},
		"two cells": func(q measure.Query) (*measure.Answer,
			error) {
			return made(q, 2, 20, someWords, r, number), nil
		},
		"no cell": func(q measure.Query) (*measure.Answer,
			error) {
			return made(q, 0, 3, someWords, r, number), nil
		},
		"nothing": func(q measure.Query) (*measure.Answer,
			error) {
			return &measure.Answer{Query: q}, nil
		},
		"nil": func(q measure.Query) (*measure.Answer, error) { return nil, nil },
		"unmeasured": func(q measure.Query) (*measure.Answer, error) {
			a := made(q, 10, 8, someWords, r, number)
			clear(a.Elapsed)
			return a, nil
		},
		"refused": func(q measure.Query) (*measure.Answer, error) {
			return nil, fmt.Errorf("x: %w", measure.ErrUnsupported)
		},
		"negative": func(q measure.Query) (*measure.Answer, error) {
			return made(q, 10, 20, someWords, r, func() float64 { return -number() }), nil
		},
		"infinite": func(q measure.Query) (*measure.Answer, error) {
			return made(q, 10, 20, someWords, r, func() float64 { return math.Inf(1) }), nil
		},
		"zero": func(q measure.Query) (*measure.Answer, error) {
			return made(q, 10, 20, someWords, r, func() float64 { return 0 }), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				rep, err := diagnose.Run(context.Background(), reader, Set(),
					measure.Interval{Start: cannedStart, End: cannedStart.Add(10 * measure.Second)},
					measure.Second)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range rep.Findings {
					t.Errorf("accuses %s: %s", f.ID, f.Claim)
				}
				if name != "zero" && len(rep.Fine) > 0 {
					t.Errorf("exonerates without a number: %v", rep.Fine)
				}
				if name != "zero" && len(rep.Checked) > 0 {
					t.Errorf("says it checked %v", rep.Checked)
				}
			}
		})
	}
}

// TestRandomAnswersAreHarmless: whatever the numbers, a report is well-formed, and no rule panics.
func TestRandomAnswersAreHarmless(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		value := func() float64 {
			switch r.IntN(8) {
			case 0:
				return math.NaN()
			case 1:
				return 0
			case 2:
				return math.Inf(1)
			case 3:
				return -1
			case 4:
				return r.Float64()
			}
			return math.Exp(r.NormFloat64() * 8)
		}
		reader := answers(func(q measure.Query) (*measure.Answer, error) {
			a := made(q, 3+r.IntN(12), r.IntN(60), someWords, r, value)
			for i := range a.Series {
				switch r.IntN(4) {
				case 0: // constant, so that it lasts
					v := value()
					for c := range a.Series[i].Values {
						a.Series[i].Values[c] = v
					}
				case 1: // not as long as the grid, or a key too short, or a label out of range
					a.Series[i].Values = a.Series[i].Values[:r.IntN(len(a.Series[i].Values))]
				case 2:
					if len(a.Series[i].Key) > 0 {
						a.Series[i].Key[0] = 999
					}
				}
			}
			return a, nil
		})
		rep, err := diagnose.Run(context.Background(), reader, Set(),
			measure.Interval{Start: cannedStart, End: cannedStart.Add(15 * measure.Second)},
			measure.Second)
		if err != nil {
			t.Fatal(err)
		}
		wellFormed(t, rep)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestJSON: the JSON of a report has the documented names, null for unknown values, and can be read
// back.
func TestJSON(t *testing.T) {
	c := readCanned(t, "testdata/link-saturated/fires.txt", nil)
	rep, err := diagnose.Run(context.Background(), c, Set(), c.over(), c.step)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(rep)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"start", "end", "host", "findings", "checked", "missing"} {
		if m[k] == nil {
			t.Errorf("no %s", k)
		}
	}
	f := m["findings"].([]any)[0].(map[string]any)
	for _, k := range []string{"id", "rule", "severity", "confidence", "culprit", "claim",
		"explains", "evidence", "exonerated", "against", "verify", "fix"} {
		if _, ok := f[k]; !ok {
			t.Errorf("no findings.%s", k)
		}
	}
	e := f["evidence"].([]any)[0].(map[string]any)
	for _, k := range []string{"statistic", "value", "unit", "over", "compared_with"} {
		if _, ok := e[k]; !ok {
			t.Errorf("no evidence.%s", k)
		}
	}
	if over, ok := e["over"].([]any); !ok || len(over) != 2 ||
		over[0] != "2026-01-02T03:04:05.000000000Z" {
		t.Errorf("over %v", e["over"])
	}
	var back diagnose.Report
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if back.Findings[0].ID != rep.Findings[0].ID || !reflect.DeepEqual(back.Checked, rep.Checked) {
		t.Error("does not read back")
	}
}

// TestCancelled: a cancelled diagnosis has no report.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := diagnose.Run(ctx,
		answers(func(q measure.Query) (*measure.Answer, error) { return nil, ctx.Err() }), Set(),
		measure.Interval{}, measure.Second); err != context.Canceled {
		t.Errorf("%v", err)
	}
}

// TestNeighbourEdges: a neighbour table is judged by its refusals and its collections, just below
// and just above each threshold, however full it is.
func TestNeighbourEdges(t *testing.T) {
	for _, tt := range []struct {
		name               string
		collected, refused float64
		want               diagnose.Severity
	}{
		{"nothing", 0, 0, ""},
		{"collections below", threshold.TableCollect * 0.99, 0, ""},
		{"collections above", threshold.TableCollect * 1.01, 0, diagnose.Medium},
		{"one refusal in ten seconds", 0, 0.1, diagnose.High},
		{"both", threshold.TableCollect * 1.01, 0.1, diagnose.High},
	} {
		for _, cache := range []string{"neighbour", "neighbour6"} {
			for _, entries := range []string{"300", "984", "1023", "1024"} {
				t.Run(tt.name+" "+cache+" "+entries, func(t *testing.T) {
					c := readCanned(t, "testdata/quiet.txt", nil)
					row := func(v string) cannedRow {
						return cannedRow{[]string{"", cache}, []string{v}}
					}
					for id, v := range map[string]string{"cache.entries": entries,
						"cache.limit": "1024", "cache.collections": fmt.Sprint(tt.collected),
						"cache.refusals": fmt.Sprint(tt.refused)} {
						s := &cannedStat{rows: []cannedRow{row(v)}}
						c.stats[id] = s
					}
					rep, err := diagnose.Run(context.Background(), c, Set(), c.over(), c.step)
					if err != nil {
						t.Fatal(err)
					}
					got := diagnose.Severity("")
					for _, f := range rep.Findings {
						if f.Rule == "table-full" {
							got = f.Severity
						}
					}
					if got != tt.want {
						t.Errorf("severity %q, want %q", got, tt.want)
					}
				})
			}
		}
	}
}
