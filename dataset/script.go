package dataset

import (
	"cmp"
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

// Runner is a running script. Safe for concurrent use.
type Runner interface {
	measure.ExternalMeter
	measure.Source
	// Ended is closed when the script has ended.
	Ended() <-chan struct{}
	// Err returns why it ended; nil before that, and when it ended by itself.
	Err() error
	// Stop ends the script and waits until the kernel has released its programs.
	Stop()
	// Output returns the end of its printed output.
	Output() string
	// Losses returns its losses since it started, by reason.
	Losses() []measure.Loss
	// Notes returns what could not be attached, and other caveats.
	Notes() []string
}

// Starter starts a script with the given ID, Name, Text and Budget. The error is a
// *measure.Diagnostic for an invalid text, or several joined, or says why this machine cannot run
// it.
type Starter func(measure.Script) (Runner, error)

// Scripts are the D programs whose statistics a Set has in addition to those of its fixed sources.
// The archive stores them: those that run when a program ends are started by the next one. Safe for
// concurrent use.
type Scripts struct {
	set   *Set
	start Starter

	life chanMutex // one change at a time; taken before Set.life

	mu      sync.Mutex // guards the fields below
	all     []*scripted
	last    uint32
	closing bool
}

// chanMutex is a lock that may be held for seconds. Unlike a sync.Mutex it works in tests with a
// fake clock (testing/synctest), whose time stops while a goroutine waits for a mutex.
type chanMutex chan struct{}

func (t chanMutex) Lock()   { t <- struct{}{} }
func (t chanMutex) Unlock() { <-t }

type scripted struct {
	measure.Script
	Paused []uint32 // datasets that were suspended with it
	Again  bool     // it runs, or would if it could: the next program starts it

	runner Runner // the newest; nil: none since the start
	began  time.Time
	costs  []costAt
}

// costAt is the cumulative cost of a script's programs at a moment.
type costAt struct {
	at  time.Time
	all measure.Span
}

const (
	scriptKind = "scripts" // kind of the documents in the archive's log; each lists all scripts
	byScript   = "script"  // actor that suspends the datasets of an ended script
	maxScripts = 32        // stored scripts
	maxText    = 48 << 10  // bytes of a script
	oldRole    = "trace"   // of stored scripts without a role: others could not be added
)

// NewScripts reads the scripts from the set's archive. None runs before Begin. The error is the
// archive's.
func NewScripts(set *Set, start Starter) (*Scripts, error) {
	s := &Scripts{set: set, start: start, life: make(chanMutex, 1)}
	err := set.archive.Logged(
		context.Background(),
		scriptKind,
		measure.Interval{},
		func(_ measure.Time, b []byte) error {
			var kept struct {
				Last    uint32
				Scripts []*scripted
			}
			if err := json.Unmarshal(b, &kept); err != nil {
				return fmt.Errorf("read the scripts: %w", err)
			}
			for _, k := range kept.Scripts {
				k.Role = cmp.Or(k.Role, oldRole)
			}
			s.all, s.last = kept.Scripts, kept.Last
			return nil
		},
	)
	return s, err
}

// save stores the scripts in the archive. s.life is held.
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
		s.set.setProblem(
			"scripts", fmt.Sprintf("a change of the scripts could not be written down: %v", err),
		)
	}
}

// Begin starts the scripts that ran when the previous program ended. Set.Health reports those that
// cannot be started.
func (s *Scripts) Begin() {
	s.life.Lock()
	defer s.life.Unlock()
	for _, k := range s.all {
		if k.Again {
			if err := s.run(k); err != nil {
				s.mu.Lock()
				k.State, k.Reason = measure.ScriptFailed, err.Error()
				s.mu.Unlock()
				s.set.setProblem(
					"script "+k.Name,
					fmt.Sprintf("the script %s could not be started: %v", k.Name, err),
				)
			}
		}
	}
}

// Close ends all running scripts. The next program starts them again.
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
	k.runner, k.State, k.Reason, k.Stats = runner, measure.ScriptRunning, "", runner.Stats()
	k.began, k.costs, k.Again = time.Now(), nil, true
	paused := k.Paused
	k.Paused = nil
	s.mu.Unlock()
	s.set.setProblem("script "+k.Name, "")
	s.set.AddSource(runner)
	for _, id := range paused {
		_ = s.set.Resume(byScript, id) // a dataset that was destroyed meanwhile needs no resume
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

// handleEnd suspends the datasets of a script that ended by itself. s.life is held.
func (s *Scripts) handleEnd(k *scripted, runner Runner) {
	state, why := measure.ScriptEnded, ""
	if err := runner.Err(); err != nil {
		state, why = measure.ScriptFailed, err.Error()
		var spent interface{ Spent() bool }
		if errors.As(err, &spent) && spent.Spent() {
			state = measure.ScriptOverBudget
		}
		s.set.setProblem(
			"script "+k.Name, fmt.Sprintf("the script %s is %s: %v", k.Name, state, err),
		)
	}
	s.pause(k, runner, state, why)
	s.audit(byScript, state.String(), k)
}

// lastTick is how long pause waits for the last tick of an ended script.
const lastTick = 3 * time.Second

// pause removes the statistics of an ended script and suspends their datasets after its last tick.
// s.life is held.
func (s *Scripts) pause(k *scripted, runner Runner, state measure.ScriptState, why string) {
	var recorded, paused []uint32
	for _, d := range s.set.Datasets() {
		own := slices.ContainsFunc(runner.Stats(), func(st measure.Stat) bool {
			return st.ID == d.Query.Stat && st.Program == d.Stat.Program
		})
		if own && d.State == measure.Recording {
			recorded = append(recorded, d.ID)
		}
	}
	if len(recorded) > 0 {
		ctx, stop := context.WithTimeout(context.Background(), lastTick)
		_, _ = s.set.Tick(ctx, now()) // without another tick there is nothing to record
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

// snapshot returns a script with its current output, losses and cost. s.mu is held.
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

// Add starts a script with the given Text, and Name and Budget if set; an unnamed script gets a
// name. With record, its statistics are recorded by all their fields. It returns the script's ID,
// or that of an equal script. The error is a *measure.Diagnostic for an invalid text, or several
// joined, or says why the script is refused or cannot run here.
func (s *Scripts) Add(who measure.Asker, given measure.Script, record bool) (uint32, error) {
	if len(given.Text) > maxText {
		return 0, fmt.Errorf(
			"a script of %d bytes is too long: at most %d: %w", len(given.Text), maxText,
			measure.ErrTooLarge,
		)
	}
	if given.Name != "" && measure.NameOf(given.Name) != given.Name {
		return 0, &measure.Diagnostic{
			Text:    given.Name,
			Len:     len(given.Name),
			Code:    "bad-name",
			Message: "a script's name has small letters, digits and _",
			Hint:    measure.NameOf(given.Name),
		}
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
			if strings.HasPrefix(string(d.Stat.ID), "trace."+name+".") &&
				d.Stat.Program != given.Text {
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
		return like.ID, s.record(who.Name, like, record)
	}
	if by != "" {
		return 0, fmt.Errorf(
			"the name %s is that of %s, of another text: give another name, or remove that",
			given.Name, by,
		)
	}
	if len(s.all) >= maxScripts {
		return 0, fmt.Errorf("there are %d scripts already: remove one", len(s.all))
	}
	k := &scripted{
		Script: measure.Script{
			ID:      s.last + 1,
			Name:    given.Name,
			Text:    given.Text,
			Budget:  given.Budget,
			Creator: who.Name,
			Role:    who.Role,
			Created: now(),
		},
	}
	if err := s.run(k); err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.all, s.last = append(s.all, k), k.ID
	s.mu.Unlock()
	s.save()
	s.audit(who.Name, "started", k)
	return k.ID, s.record(who.Name, k, record)
}

// record creates datasets of a script's statistics. s.life is held.
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

// restart starts a script that does not run. s.life is held.
func (s *Scripts) restart(who measure.Asker, k *scripted) error {
	s.mu.Lock()
	k.Role = who.Role
	s.mu.Unlock()
	if err := s.run(k); err != nil {
		return err
	}
	s.save()
	s.audit(who.Name, "started", k)
	return nil
}

// Start starts a script that does not run; its datasets continue. The error means an unknown ID, or
// a failed start.
func (s *Scripts) Start(who measure.Asker, id uint32) error {
	s.life.Lock()
	defer s.life.Unlock()
	k, err := s.find(id)
	if err != nil || k.State == measure.ScriptRunning {
		return err
	}
	return s.restart(who, k)
}

// Stop ends a script. Its recorded data stays. The error means an unknown ID.
func (s *Scripts) Stop(who measure.Asker, id uint32) error {
	s.life.Lock()
	defer s.life.Unlock()
	k, err := s.find(id)
	if err != nil || k.State != measure.ScriptRunning {
		return err
	}
	s.stop(who.Name, k)
	return nil
}

// stop ends a running script. s.life is held.
func (s *Scripts) stop(who string, k *scripted) {
	runner := k.runner
	s.mu.Lock()
	k.State = measure.ScriptStopped // follow ignores it from here on
	s.mu.Unlock()
	runner.Stop()
	s.pause(k, runner, measure.ScriptStopped, "")
	s.audit(who, "stopped", k)
}

// Remove ends a script and deletes it. Its recorded data stays, with the text of the script. The
// error means an unknown ID.
func (s *Scripts) Remove(who measure.Asker, id uint32) error {
	s.life.Lock()
	defer s.life.Unlock()
	k, err := s.find(id)
	if err != nil {
		return err
	}
	if k.State == measure.ScriptRunning {
		s.stop(who.Name, k)
	}
	s.set.setProblem("script "+k.Name, "")
	s.mu.Lock()
	s.all = slices.DeleteFunc(slices.Clone(s.all), func(o *scripted) bool { return o == k })
	s.mu.Unlock()
	s.save()
	s.audit(who.Name, "removed", k)
	return nil
}
