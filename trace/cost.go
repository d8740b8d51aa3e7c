package trace

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/syntax"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A Cost is the run time of one program of a script, as the kernel counts it
// (kernel.bpf_stats_enabled). It does not count BEGIN, END, ERROR and ticks, which culprit runs.
type Cost struct {
	Unit *Unit
	Runs uint64
	Time time.Duration // summed over all CPUs
	// Missed counts firings that the kernel left out, because the program ran on that CPU already.
	Missed uint64
}

// A Budget is the greatest share of one CPU that a script may use; 0: no limit.
type Budget float64

// ParseBudget parses a budget such as "1%" or "0.5%". It fails when text is not a percentage above
// 0.
func ParseBudget(text string) (Budget, error) {
	n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), "%"), 64)
	if err != nil || !(n > 0) || n > 100*1024 || !strings.HasSuffix(strings.TrimSpace(text), "%") {
		return 0, fmt.Errorf("budget=%s: write a percentage of one CPU, such as 1%%", text)
	}
	return Budget(n / 100), nil
}

// ErrBudget is the error of a script that was stopped because it was over its budget.
type ErrBudget struct {
	Budget Budget
	Share  float64 // of one CPU, over the last second
	Most   *Unit   // the program that used most
}

// Error returns the share that the script used, its budget, and the probe that used most.
func (e *ErrBudget) Error() string {
	return fmt.Sprintf(
		"stopped: it used %.2f %% of one CPU, more than the budget of %.2f %%; most of it at %v",
		100*e.Share, 100*float64(e.Budget), e.Most.Probes[0],
	)
}

// CountCosts makes the kernel count the run time of BPF programs (kernel.bpf_stats_enabled, Linux
// 5.8) until the session ends. It fails without CAP_SYS_ADMIN.
func (s *Session) CountCosts() error {
	c, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return fmt.Errorf("count the run time of the script: %w", err)
	}
	s.costs.counting = c
	return nil
}

// Costs returns the run time of each program since it was loaded. It fails when the kernel refuses
// to report it.
func (s *Session) Costs() ([]Cost, error) {
	var all []Cost
	for i, u := range s.script.Units {
		if u.Probes[0].Site == check.SiteRun {
			continue
		}
		stats, err := s.programs.maps.Programs[programName(i)].Stats()
		if err != nil {
			return nil, fmt.Errorf("read the run time of the script: %w", err)
		}
		all = append(all, Cost{u, stats.RunCount, stats.Runtime, stats.RecursionMisses})
	}
	return all, nil
}

// A ClauseCost is what one clause of the text took, on all CPUs. Its time contains the predicate
// and one reading of the clock. Clauses that culprit runs, such as BEGIN, are counted too.
type ClauseCost struct {
	Clause       *check.Clause
	Line, Column int    // of the clause, from 1; 0: it is not in the text
	Fired        uint64 // the clause began
	Ran          uint64 // its predicate was true
	Time         time.Duration
}

// ClauseCosts returns the cost of each clause since the script was loaded, in the order of the
// text. It returns nothing for a script without -x cost. Clauses of one text, which a translation
// has divided, are one. It fails when the kernel's map cannot be read.
func (s *Session) ClauseCosts() ([]ClauseCost, error) {
	m := s.programs.maps.Maps[gen.MapCost]
	if m == nil {
		return nil, nil
	}
	var all []ClauseCost
	at := map[syntax.Span]int{}
	for _, c := range s.script.Program.Clauses {
		var each []gen.ClauseCost
		if err := m.Lookup(uint32(c.Index), &each); err != nil {
			return nil, fmt.Errorf("read the costs of the clauses: %w", err)
		}
		i, ok := at[c.At]
		if !ok || c.Hidden {
			i = len(all)
			all = append(all, ClauseCost{Clause: c})
			if c.At.To > c.At.From && !c.Hidden {
				at[c.At] = i
				all[i].Line, all[i].Column = s.script.place(int(c.At.From))
			}
		}
		for _, one := range each {
			if !c.Continues { // else the firing was counted before
				all[i].Fired += one.Fired
				all[i].Ran += one.Ran
			}
			all[i].Time += time.Duration(one.Time)
		}
	}
	return all, nil
}

// Do calls f on the goroutine that runs the session, between two drains. It returns false, and does
// not call f, when over is closed first.
func (s *Session) Do(f func(), over <-chan struct{}) bool {
	done := make(chan struct{})
	select {
	case s.calls <- func() { defer close(done); f() }:
		<-done
		return true
	case <-over:
		return false
	}
}

// maxBudgetFactor is how many times its budget a script may use in a single second.
const maxBudgetFactor = 10

// checkBudget returns an *ErrBudget when the script has been over its budget for too long. over is
// the time since the last check.
func (s *Session) checkBudget(over measure.Span) error {
	if s.costs.counting == nil {
		return nil
	}
	all, err := s.Costs()
	if err != nil {
		return err
	}
	var sum time.Duration
	var costliest *Unit
	var most time.Duration
	for i, c := range all {
		took := c.Time
		if i < len(s.costs.spent) {
			took -= s.costs.spent[i].Time
		}
		sum += took
		if took >= most {
			most, costliest = took, c.Unit
		}
	}
	s.costs.spent = all
	share := float64(sum) / float64(over)
	if s.Budget == 0 || share <= float64(s.Budget) {
		s.costs.overBudget = 0
		return nil
	}
	if s.costs.overBudget++; s.costs.overBudget <= s.costs.maxOverBudget &&
		share <= maxBudgetFactor*float64(s.Budget) {
		return nil
	}
	return &ErrBudget{s.Budget, share, costliest}
}

// Spent returns true. Packages that cannot import trace recognize the error by this method.
func (e *ErrBudget) Spent() bool { return true }
