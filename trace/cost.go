package trace

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"culprit/lang/check"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A Cost is what one program of a script took, as the kernel counts it (kernel.bpf_stats_enabled).
// Programs that are run by hand - BEGIN, END, ticks - are not counted by it.
type Cost struct {
	Unit *Unit
	Runs uint64
	Time time.Duration // of all CPUs together
	// firings that the kernel left out, because the program was running on that CPU already
	Missed uint64
}

// A Budget is the most that a script may take of one CPU; 0: no bound.
type Budget float64

// ParseBudget reads "1%" or "0.5%".
func ParseBudget(text string) (Budget, error) {
	n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), "%"), 64)
	if err != nil || !(n > 0) || n > 100*1024 || !strings.HasSuffix(strings.TrimSpace(text), "%") {
		return 0, fmt.Errorf("budget=%s: give per cent of one CPU, such as 1%%", text)
	}
	return Budget(n / 100), nil
}

// ErrBudget ends a script that takes more than it may.
type ErrBudget struct {
	Budget Budget
	Share  float64 // of one CPU, over the last second
	Most   *Unit   // what takes most
}

// Error reports how much it took, and where most of it.
func (e *ErrBudget) Error() string {
	return fmt.Sprintf(
		"stopped: it took %.2f %% of one CPU, more than the budget of %.2f %%; most of it at %v",
		100*e.Share, 100*float64(e.Budget), e.Most.Probes[0],
	)
}

// CountCosts makes the kernel count the run time of BPF programs (kernel.bpf_stats_enabled, Linux
// 5.8) until the session ends. It fails without CAP_SYS_ADMIN.
func (s *Session) CountCosts() error {
	c, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return fmt.Errorf("count what the script costs: %w", err)
	}
	s.counting = c
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
		stats, err := s.maps.Programs[programName(i)].Stats()
		if err != nil {
			return nil, fmt.Errorf("read what the script costs: %w", err)
		}
		all = append(all, Cost{u, stats.RunCount, stats.Runtime, stats.RecursionMisses})
	}
	return all, nil
}

// maxBudgetFactor is how many times its budget a script may use in a single second.
const maxBudgetFactor = 10

// afford returns an *ErrBudget when the script was over its budget for longer than it may be.
func (s *Session) afford(over measure.Span) error {
	if s.counting == nil {
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
		if i < len(s.spent) {
			took -= s.spent[i].Time
		}
		sum += took
		if took >= most {
			most, costliest = took, c.Unit
		}
	}
	s.spent = all
	share := float64(sum) / float64(over)
	if s.Budget == 0 || share <= float64(s.Budget) {
		s.overBudget = 0
		return nil
	}
	if s.overBudget++; s.overBudget <= s.maxOverBudget &&
		share <= maxBudgetFactor*float64(s.Budget) {
		return nil
	}
	return &ErrBudget{s.Budget, share, costliest}
}

// Spent says that it was the budget, to who knows no scripts.
func (e *ErrBudget) Spent() bool { return true }
