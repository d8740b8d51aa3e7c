package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"culprit/measure"
)

// Runner is a script that runs. Safe for several goroutines.
type Runner interface {
	measure.ExternalMeter
	measure.Source
	// Ended is closed when it has ended.
	Ended() <-chan struct{}
	// Why says why it has ended, once it has; nil where that was its own will.
	Err() error
	// Stop ends it, and waits until nothing of it is in the kernel.
	Stop()
	// Said gives the last of what it printed.
	Output() string
	// Lost gives what it lost since it began, by reason.
	Losses() []measure.Loss
	// Notes say what of it could not be had, in a sentence each.
	Notes() []string
}

// Starter begins a script, of which ID, Name, Text and Budget are set. errors.As gives the *measure.Diagnostic of what is wrong with the text, each where
// there are more; another error says why this machine can't run it.
type Starter func(measure.Script) (Runner, error)

// Scripts are the D programs that a Set's statistics come from, beside the sources that are always there. They are kept in the archive: those that run when a
// program ends run in the next. Safe for several goroutines.
type Scripts struct {
	set   *Set
	start Starter

	life chanMutex // one change at a time; taken before Set.life

	mu      sync.Mutex // guards what follows
	all     []*scripted
	last    uint32
	closing bool
}

// turn is a lock that is held for seconds at a time. A mutex would do as well, but for tests in made-up time, which stands still while somebody waits for one.
type chanMutex chan struct{}

func (t chanMutex) Lock()   { t <- struct{}{} }
func (t chanMutex) Unlock() { <-t }

type scripted struct {
	measure.Script
	Paused []uint32 // datasets that were suspended with it
	Again  bool     // it runs, or would if it could: to be started with the next program

	runner Runner // the last; nil: none since the start
	began  time.Time
	costs  []costAt
}

// spentAt is what a script's programs had taken at a moment.
type costAt struct {
	at  time.Time
	all measure.Span
}

const (
	scriptKind = "scripts" // of documents in the archive's log: all that there are
	byScript   = "script"  // who suspends the datasets of a script that has ended
	maxScripts = 32        // that are kept
	maxText    = 48 << 10  // bytes of a script
)

// NewScripts reads the scripts that the set's archive has. None runs before Begin.
func NewScripts(set *Set, start Starter) (*Scripts, error) {
	s := &Scripts{set: set, start: start, life: make(chanMutex, 1)}
	err := set.archive.Logged(context.Background(), scriptKind, measure.Interval{}, func(_ measure.Time, b []byte) error {
		var kept struct {
			Last    uint32
			Scripts []*scripted
		}
		if err := json.Unmarshal(b, &kept); err != nil {
			return fmt.Errorf("read the scripts: %w", err)
		}
		s.all, s.last = kept.Scripts, kept.Last
		return nil
	})
	return s, err
}

// keep writes the scripts down. s.life is held.
func (s *Scripts) save() {
	s.mu.Lock()
	b, err := json.Marshal(struct {
		Last    uint32
		Scripts []*scripted
	}{s.last, s.all})
	s.mu.Unlock()
	if err == nil {
		err = s.set.archive.Log(scriptKind, now(), b)
	}
	if err != nil {
		s.set.setProblem("scripts", fmt.Sprintf("a change of the scripts could not be written down: %v", err))
	}
}

// Begin starts the scripts that ran when the program before ended. What can't be started is told by Set.Health.
func (s *Scripts) Begin() {
	s.life.Lock()
	defer s.life.Unlock()
	for _, k := range s.all {
		if k.Again {
			if err := s.run(k); err != nil {
				s.mu.Lock()
				k.State, k.Reason = measure.ScriptFailed, err.Error()
				s.mu.Unlock()
				s.set.setProblem("script "+k.Name, fmt.Sprintf("the script %s could not be started: %v", k.Name, err))
			}
		}
	}
}

// Close ends all that run. They stay to be run by the next program.
func (s *Scripts) Close() {
	s.life.Lock()
	defer s.life.Unlock()
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	for _, k := range s.all {
		if k.runner != nil {
			k.runner.Stop()
		}
	}
}

// run starts a script. s.life is held.
func (s *Scripts) run(k *scripted) error {
	runner, err := s.start(k.Script)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		runner.Stop()
		return errEnded
	}
	k.runner, k.State, k.Reason, k.Stats, k.began, k.costs, k.Again = runner, measure.ScriptRunning, "", runner.Stats(), time.Now(), nil, true
	paused := k.Paused
	k.Paused = nil
	s.mu.Unlock()
	s.set.setProblem("script "+k.Name, "")
	s.set.AddSource(runner)
	for _, id := range paused {
		_ = s.set.Resume(byScript, id) // one that was destroyed meanwhile needs none
	}
	go s.follow(k, runner)
	return nil
}

// follow waits for the end of a script.
func (s *Scripts) follow(k *scripted, runner Runner) {
	<-runner.Ended()
	s.life.Lock()
	defer s.life.Unlock()
	s.mu.Lock()
	mine := k.runner == runner && k.State == measure.ScriptRunning && !s.closing
	s.mu.Unlock()
	if mine {
		s.handleEnd(k, runner)
	}
}

// over sees to what a script leaves that has ended by itself. s.life is held.
func (s *Scripts) handleEnd(k *scripted, runner Runner) {
	state, why := measure.ScriptEnded, ""
	if err := runner.Err(); err != nil {
		state, why = measure.ScriptFailed, err.Error()
		var spent interface{ Spent() bool }
		if errors.As(err, &spent) && spent.Spent() {
			state = measure.ScriptOverBudget
		}
		s.set.setProblem("script "+k.Name, fmt.Sprintf("the script %s is %s: %v", k.Name, state, err))
	}
	s.pause(k, runner, state, why)
	s.audit(byScript, state.String(), k)
}

// lastTick is how long the last tick of a script that has ended is waited for.
const lastTick = 3 * time.Second

// pause takes the statistics of a script that has ended away and suspends their datasets, once they have what it gave last. s.life is held.
func (s *Scripts) pause(k *scripted, runner Runner, state measure.ScriptState, why string) {
	var recorded, paused []uint32
	for _, d := range s.set.Datasets() {
		if d.State == measure.Recording && slices.ContainsFunc(runner.Stats(), func(st measure.Stat) bool { return st.ID == d.Query.Stat && st.Program == d.Stat.Program }) {
			recorded = append(recorded, d.ID)
		}
	}
	if len(recorded) > 0 {
		ctx, stop := context.WithTimeout(context.Background(), lastTick)
		_, _ = s.set.Tick(ctx, now()) // where none comes there is nothing to wait for
		stop()
	}
	for _, id := range recorded {
		if s.set.Suspend(byScript, id) == nil {
			paused = append(paused, id)
		}
	}
	s.set.RemoveSource(runner)
	s.mu.Lock()
	k.State, k.Reason, k.Paused, k.Again = state, why, paused, false
	s.mu.Unlock()
	s.save()
}

func (s *Scripts) audit(who, what string, k *scripted) {
	s.set.log(measure.Change{Actor: who, Action: what, Query: "script " + k.Name})
}

// Scripts lists the scripts, by ID.
func (s *Scripts) Scripts() []measure.Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []measure.Script
	for _, k := range s.all {
		out = append(out, k.snapshot())
	}
	return out
}

// told gives a script with what it says now. s.mu is held.
func (k *scripted) snapshot() measure.Script {
	t := k.Script
	t.CPU = measure.NaN
	if k.runner == nil {
		return t
	}
	t.Output, t.Notes, t.Loss = k.runner.Output(), k.runner.Notes(), k.runner.Losses()
	if k.State != measure.ScriptRunning {
		return t
	}
	at := costAt{time.Now(), k.runner.ExternalCost()}
	if n := len(k.costs); n == 0 || at.at.Sub(k.costs[n-1].at) >= time.Second {
		k.costs = append(k.costs, at)
	}
	for len(k.costs) > 2 && at.at.Sub(k.costs[1].at) >= usageInterval {
		k.costs = k.costs[1:]
	}
	first := costAt{k.began, 0}
	if len(k.costs) > 1 {
		first = k.costs[0]
	}
	if d := at.at.Sub(first.at); d >= time.Second {
		t.CPU = float64(at.all-first.all) / float64(d)
	}
	return t
}

// Add begins a script, of which Text is set, and Name and Budget if wanted: without a name it gets one. record: its statistics are recorded from now on, each by all
// its fields. It gives the script's ID: that of an equal one where there is one. The error is a *measure.Diagnostic for a text that can't be - each, where there are
// more - or says why the script is refused or can't run here.
func (s *Scripts) Add(who string, given measure.Script, record bool) (uint32, error) {
	if len(given.Text) > maxText {
		return 0, fmt.Errorf("a script of %d bytes is too long: at most %d: %w", len(given.Text), maxText, measure.ErrTooLarge)
	}
	if given.Name != "" && measure.NameOf(given.Name) != given.Name {
		return 0, &measure.Diagnostic{Text: given.Name, Len: len(given.Name), Code: "bad-name", Message: "a script's name has small letters, digits and _", Hint: measure.NameOf(given.Name)}
	}
	if !(given.Budget >= 0) {
		return 0, fmt.Errorf("a budget of %v is no share of a CPU", given.Budget)
	}
	s.life.Lock()
	defer s.life.Unlock()
	taken := func(name string) (like *scripted, by string) {
		for _, k := range s.all {
			if k.Name == name {
				return k, fmt.Sprintf("script %d", k.ID)
			}
		}
		for _, d := range s.set.Datasets() {
			if strings.HasPrefix(string(d.Stat.ID), "trace."+name+".") && d.Stat.Program != given.Text {
				return nil, fmt.Sprintf("what dataset %d has recorded", d.ID)
			}
		}
		return nil, ""
	}
	if given.Name == "" {
		for n := s.last + 1; ; n++ {
			given.Name = fmt.Sprintf("script%d", n)
			if _, by := taken(given.Name); by == "" {
				break
			}
		}
	}
	like, by := taken(given.Name)
	if like != nil && like.Text == given.Text && like.Budget == given.Budget {
		if like.State != measure.ScriptRunning {
			if err := s.restart(who, like); err != nil {
				return 0, err
			}
		}
		return like.ID, s.record(who, like, record)
	}
	if by != "" {
		return 0, fmt.Errorf("the name %s is that of %s, of another text: give another name, or remove that", given.Name, by)
	}
	if len(s.all) >= maxScripts {
		return 0, fmt.Errorf("there are %d scripts already: remove one", len(s.all))
	}
	k := &scripted{Script: measure.Script{ID: s.last + 1, Name: given.Name, Text: given.Text, Budget: given.Budget, Creator: who, Created: now()}}
	if err := s.run(k); err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.all, s.last = append(s.all, k), k.ID
	s.mu.Unlock()
	s.save()
	s.audit(who, "started", k)
	return k.ID, s.record(who, k, record)
}

// record makes datasets of a script's statistics. s.life is held.
func (s *Scripts) record(who string, k *scripted, wanted bool) error {
	if !wanted {
		return nil
	}
	for _, st := range k.Stats {
		q := measure.Query{Stat: st.ID, Step: measure.Second}
		for _, f := range st.Fields {
			q.By = append(q.By, f.Name)
		}
		if _, err := s.set.Enable(who, q); err != nil {
			return err
		}
	}
	return nil
}

func (s *Scripts) find(id uint32) (*scripted, error) {
	for _, k := range s.all {
		if k.ID == id {
			return k, nil
		}
	}
	return nil, fmt.Errorf("there is no script %d", id)
}

// again starts one that does not run. s.life is held.
func (s *Scripts) restart(who string, k *scripted) error {
	if err := s.run(k); err != nil {
		return err
	}
	s.save()
	s.audit(who, "started", k)
	return nil
}

// Start begins a script that does not run once more. Its datasets go on.
func (s *Scripts) Start(who string, id uint32) error {
	s.life.Lock()
	defer s.life.Unlock()
	k, err := s.find(id)
	if err != nil || k.State == measure.ScriptRunning {
		return err
	}
	return s.restart(who, k)
}

// Stop ends a script. What was recorded of it stays.
func (s *Scripts) Stop(who string, id uint32) error {
	s.life.Lock()
	defer s.life.Unlock()
	k, err := s.find(id)
	if err != nil || k.State != measure.ScriptRunning {
		return err
	}
	s.stop(who, k)
	return nil
}

// stop ends a script that runs. s.life is held.
func (s *Scripts) stop(who string, k *scripted) {
	runner := k.runner
	s.mu.Lock()
	k.State = measure.ScriptStopped // follow leaves it to us
	s.mu.Unlock()
	runner.Stop()
	s.pause(k, runner, measure.ScriptStopped, "")
	s.audit(who, "stopped", k)
}

// Remove ends a script and forgets it. What was recorded of it stays, and says by which text.
func (s *Scripts) Remove(who string, id uint32) error {
	s.life.Lock()
	defer s.life.Unlock()
	k, err := s.find(id)
	if err != nil {
		return err
	}
	if k.State == measure.ScriptRunning {
		s.stop(who, k)
	}
	s.set.setProblem("script "+k.Name, "")
	s.mu.Lock()
	s.all = slices.DeleteFunc(slices.Clone(s.all), func(o *scripted) bool { return o == k })
	s.mu.Unlock()
	s.save()
	s.audit(who, "removed", k)
	return nil
}
