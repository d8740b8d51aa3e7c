package cases

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Scene is a running fault, or its healthy twin.
type Scene struct {
	Lab   *Lab
	Story string
	// Where is the host on which the diagnosis is asked; nil for the machine as it is.
	Where *Host
	// Loads by the name of their process.
	Loads []*Load
	Truth Truth
	// Try is what a person may type to see the fault with other tools.
	Try []string
}

// Truth is what is wrong in a scene, and who did it.
type Truth struct {
	Rule string // the finding that must be there; "" when nothing is wrong
	// Kind and Names of the culprit: one of the names will do. Nil: any.
	Kind  []string
	Names []string
	PID   int // of a culprit that is a process; 0: not said
	// Also lists findings that are true too, as consequences or companions; any other of high or
	// medium severity accuses the wrong culprit.
	Also []string
	// Never lists findings that would be plainly wrong even if the machine has other troubles.
	Never []string
	// Lowest is the least severity the finding may have: "low", "medium" or "high"; "" is "medium".
	Lowest string
	// Explains is the least share of the symptom that the finding must put on the culprit; 0: not
	// said.
	Explains float64
	// Cleared lists resources that the finding must rule out: "cpu", "memory", "disk",
	// "network".
	Cleared []string
	// Says is what a number among the finding's evidence must lie between: the lab knows it from
	// its own loads.
	Says   []Span
	Expect []Range
}

// Span is a number known from the loads, and how exactly.
type Span struct {
	What      string
	Low, High float64
}

// Range is what a quantity of the scene lies between while the scene is as it should be.
type Range struct {
	What      string
	Low, High float64
	Unit      string
	// Read returns the quantity and its time. It must not be called after the lab's Close.
	Read  func() (float64, time.Time)
	Level bool // it is compared as it is; otherwise it counts up and its rate a second is compared
}

// Outside waits a second, measures the expected quantities over span and lists those that are out
// of their range: then the scene, for instance on a machine that is busy with other things, doesn't
// show what it should. All measured values are in said.
func (s *Scene) Outside(ctx context.Context, span time.Duration) (outside, said []string) {
	type point struct {
		v  float64
		at time.Time
	}
	if sleep(ctx, time.Second) != nil { // TCP has found its speed by then
		return nil, nil
	}
	before := make([]point, len(s.Truth.Expect))
	for i, r := range s.Truth.Expect {
		before[i].v, before[i].at = r.Read()
	}
	if sleep(ctx, span) != nil {
		return nil, nil
	}
	for i, r := range s.Truth.Expect {
		v, at := r.Read()
		if !r.Level {
			v = (v - before[i].v) / at.Sub(before[i].at).Seconds()
		}
		line := fmt.Sprintf("%s %.4g %s, expected %.4g to %.4g", r.What, v, r.Unit, r.Low, r.High)
		said = append(said, line)
		if !(v >= r.Low && v <= r.High) { // so that no number is outside too
			outside = append(outside, line)
		}
	}
	return outside, said
}

// Options adapt a scene; zero values are the scene's own.
type Options struct {
	Entries int // of long tables
	Mbit    int // of the slow or full link
}

// Story is one entry of the catalogue.
type Story struct {
	Name string // what is typed: "link-saturated"
	Help string // one sentence
	Twin string // the story that differs only in the fault; "" for a twin itself
	Long bool   // takes more than some 8 seconds to set up and watch
	// Its loads take less than a fifth of a CPU, and what is wrong stays in its network namespaces
	// and cgroups: other such may play beside it.
	Light bool
	Needs func() string
	// Over is the time that a diagnosis must watch to see it, such as "10s"; "": any.
	Over  string
	build func(*Lab, *Scene, Options)
}

// Catalogue lists all stories: the list is the documentation.
func Catalogue() []Story {
	return slices.Concat(
		linkStories(), hubStories(), peerStories(), packetStories(), tableStories(), purgeStories(),
		functionStories(), cpuStories(), limitStories(), reachedStories(), stallStories(),
		waitStories(), webStories(), turnStories(), crewStories(), queueStories(), faultStories(),
		pollStories(),
		pathStories(),
		writebackStories(),
		swapStories(), trackStories(), deviceStories(),
		crashStories(), damageStories(), pipeStories(), groupStories(),
	)
}

// Five returns the names of the stories of docs/tutorials.
func Five() []string {
	return []string{"dead-interface", "table-long", "peer-slow", "cache-purge", "link-saturated"}
}

// Chosen returns the Five with their twins and a tenth of the other faults with theirs. tenth is
// from 0 to 9: each story is in at least one of the ten.
func Chosen(tenth int) []Story {
	all := Catalogue()
	isTwin, play := map[string]bool{}, map[string]bool{}
	for _, s := range all {
		isTwin[s.Twin] = true
	}
	others := 0
	for _, s := range all {
		if isTwin[s.Name] {
			continue
		}
		five := slices.Contains(Five(), s.Name)
		if five || others%10 == tenth {
			play[s.Name], play[s.Twin] = true, true
		}
		if !five {
			others++
		}
	}
	return slices.DeleteFunc(all, func(s Story) bool { return !play[s.Name] })
}

// Find returns the story of that name. Its error lists near names.
func Find(name string) (Story, error) {
	var names []string
	for _, s := range Catalogue() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Story{}, fmt.Errorf(
		"no story is called %q; there are %s", name, strings.Join(names, ", "),
	)
}

// Play builds the story's scene in the lab and starts its loads, which run until the lab is closed.
// An error means that the machine lacks what the story needs, or that a part of the scene failed.
func (s Story) Play(l *Lab, o Options) (*Scene, error) {
	if s.Needs != nil {
		if why := s.Needs(); why != "" {
			return nil, fmt.Errorf("%s needs %s", s.Name, why)
		}
	}
	sc := &Scene{Lab: l, Story: s.Name}
	s.build(l, sc, o)
	if l.err != nil {
		return nil, fmt.Errorf("play %s: %w", s.Name, l.err)
	}
	return sc, nil
}

// load starts a load as part of the scene.
func (s *Scene) load(p Program) *Load {
	d := s.Lab.Start(p)
	s.Loads = append(s.Loads, d)
	return d
}

// Load returns the scene's load of that name; nil when there is none.
func (s *Scene) Load(name string) *Load {
	for _, d := range s.Loads {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// Failed lists the loads that ended by themselves, with what they said.
func (s *Scene) Failed() []string {
	var f []string
	for _, d := range s.Loads {
		if d.Ended() {
			f = append(f, d.Name+": "+d.Said())
		}
	}
	return f
}

func (s *Scene) try(format string, args ...any) {
	s.Try = append(s.Try, fmt.Sprintf(format, args...))
}
