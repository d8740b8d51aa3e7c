package dataset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"culprit/measure"
)

// Kinds of documents in the archive's log.
const (
	changeKind  = "change"   // a measure.Change
	defaultKind = "defaults" // the queries that have become default datasets, all of them
)

// byDefault is the actor that creates the default datasets.
const byDefault = "default"

// maxStep is the longest step of a dataset.
const maxStep = 3600 * measure.Second

// Enable records a query and returns its dataset. An existing dataset of an equal query is resumed
// if necessary. A recording dataset that covers the query is used too: it has the fields, no
// narrower predicate, and a step that divides the query's. q.Step is a whole number of seconds up
// to an hour; 0 means one second. who is the actor in the audit log. The error is a
// *measure.Diagnostic for an invalid query.
func (s *Set) Enable(who string, q measure.Query) (uint32, error) {
	if q.Step == 0 {
		q.Step = measure.Second
	}
	q.Over = measure.Interval{}
	if err := s.sourceCatalogue().Check(q); err != nil {
		if s.readableCatalogue().Check(q) == nil {
			return 0, fmt.Errorf(
				"record %s: this program no longer measures it: %w", q, measure.ErrUnsupported,
			)
		}
		return 0, err
	}
	if q.Step < measure.Second || q.Step > maxStep || q.Step%measure.Second != 0 {
		return 0, fmt.Errorf(
			"record %s at steps of %v: a step is a whole number of seconds, from 1 s to 1 h", q,
			q.Step,
		)
	}
	s.life.Lock()
	defer s.life.Unlock()
	for _, d := range s.Datasets() {
		if d.Query.Step == q.Step && equalQueries(d.Query, q) &&
			sameMeaning(d, s.sourceCatalogue().Stat(q.Stat)) {
			if d.State == measure.Suspended {
				return d.ID, s.changeState(who, d, measure.Recording)
			}
			return d.ID, nil
		}
	}
	for _, d := range s.Datasets() {
		if s.records(d) && covers(d.Query, q) {
			return d.ID, nil
		}
	}
	id, err := s.create(who, q)
	if err == nil {
		s.apply()
	}
	return id, err
}

// equalQueries reports whether two queries of equal steps select the same rows.
func equalQueries(a, b measure.Query) bool {
	return a.Stat == b.Stat && sameSet(a.By, b.By) && len(a.Where) == len(b.Where) &&
		containsTerms(a.Where, b.Where) &&
		containsTerms(b.Where, a.Where)
}

// containsTerms reports whether each term of a is one of b.
func containsTerms(a, b []measure.Term) bool {
	for _, t := range a {
		if !slices.ContainsFunc(b, func(o measure.Term) bool {
			return t.Field == o.Field && t.Op == o.Op && sameSet(t.Values, o.Values)
		}) {
			return false
		}
	}
	return true
}

// covers reports whether q can be answered from the rows of have.
func covers(have, q measure.Query) bool {
	if have.Stat != q.Stat || q.Step%have.Step != 0 || !containsTerms(have.Where, q.Where) {
		return false
	}
	for _, f := range q.By {
		if !slices.Contains(have.By, f) {
			return false
		}
	}
	for _, t := range q.Where {
		if !slices.Contains(have.By, t.Field) && !containsTerms([]measure.Term{t}, have.Where) {
			return false
		}
	}
	return true
}

// create saves a new dataset. s.life is held; apply starts it.
func (s *Set) create(who string, q measure.Query) (uint32, error) {
	id, err := s.archive.Save(s.describe(who, q))
	if err != nil {
		return 0, fmt.Errorf("record %s: %w", q, err)
	}
	s.log(measure.Change{Actor: who, Action: "made", Dataset: id, Query: q.String()})
	return id, nil
}

// describe returns a new dataset.
func (s *Set) describe(who string, q measure.Query) measure.Dataset {
	return measure.Dataset{
		Query:   q,
		Stat:    *s.sourceCatalogue().Stat(q.Stat),
		Created: now(),
		State:   measure.Recording,
		Creator: who,
	}
}

func (s *Set) find(id uint32) (measure.Dataset, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.sets {
		if d.ID == id {
			return d, nil
		}
	}
	return measure.Dataset{}, fmt.Errorf("there is no dataset %d", id)
}

// Suspend stops recording a dataset; its data stays. A suspended dataset stays as it is. The error
// means an unknown ID, or a failed write to the archive.
func (s *Set) Suspend(who string, id uint32) error { return s.setState(who, id, measure.Suspended) }

// Resume records a suspended dataset again. The error is ErrUnsupported when this program does not
// measure it.
func (s *Set) Resume(who string, id uint32) error { return s.setState(who, id, measure.Recording) }

func (s *Set) setState(who string, id uint32, state measure.State) error {
	s.life.Lock()
	defer s.life.Unlock()
	d, err := s.find(id)
	if err != nil || d.State == state {
		return err
	}
	if state == measure.Recording && !sameMeaning(d, s.sourceCatalogue().Stat(d.Query.Stat)) {
		return fmt.Errorf(
			"resume dataset %d, %s: this program does not measure it, "+
				"or measures something else by its name: %w",
			id,
			d.Query,
			measure.ErrUnsupported,
		)
	}
	return s.changeState(who, d, state)
}

// changeState changes a dataset's state. s.life is held.
func (s *Set) changeState(who string, d measure.Dataset, state measure.State) error {
	d.State = state
	verb, action := "resume", "resumed"
	if state == measure.Suspended {
		verb, action = "suspend", "suspended"
	}
	if _, err := s.archive.Save(d); err != nil {
		return fmt.Errorf("%s dataset %d: %w", verb, d.ID, err)
	}
	s.log(measure.Change{Actor: who, Action: action, Dataset: d.ID, Query: d.Query.String()})
	s.apply()
	return nil
}

// Destroy deletes a dataset and all its data. The error means an unknown ID, or a failed write to
// the archive.
func (s *Set) Destroy(who string, id uint32) error {
	s.life.Lock()
	defer s.life.Unlock()
	d, err := s.find(id)
	if err != nil {
		return err
	}
	// Remove it from the recorders first, so that no tick is appended to a deleted dataset.
	s.mu.Lock()
	s.sets = slices.DeleteFunc(
		slices.Clone(s.sets), func(o measure.Dataset) bool { return o.ID == id },
	)
	s.mu.Unlock()
	s.removeFromRecorders(id)
	err = s.archive.Drop(id)
	if err != nil {
		err = fmt.Errorf("destroy dataset %d: %w", id, err)
	} else {
		s.log(measure.Change{Actor: who, Action: "destroyed", Dataset: id, Query: d.Query.String()})
	}
	s.apply()
	return err
}

// removeFromRecorders removes a dataset from its recorder.
func (s *Set) removeFromRecorders(id uint32) {
	s.mu.Lock()
	var all []*recorder
	for _, r := range s.recorders {
		all = append(all, r)
	}
	s.mu.Unlock()
	for _, r := range all {
		r.mu.Lock()
		r.folders = slices.DeleteFunc(
			slices.Clone(r.folders), func(k *datasetFolder) bool { return k.dataset.ID == id },
		)
		r.mu.Unlock()
	}
}

// Discard deletes what a dataset contains of a time. The error means an unknown ID, an empty time,
// or a failed write to the archive.
func (s *Set) Discard(who string, id uint32, over measure.Interval) error {
	s.life.Lock()
	defer s.life.Unlock()
	d, err := s.find(id)
	if err != nil {
		return err
	}
	if over.End <= over.Start {
		return fmt.Errorf("discard of dataset %d: the time ends before it begins", id)
	}
	if err := s.archive.Discard(id, over); err != nil {
		return fmt.Errorf("discard of dataset %d: %w", id, err)
	}
	s.log(
		measure.Change{
			Actor:   who,
			Action:  "discarded",
			Dataset: id,
			Query:   d.Query.String(),
			Over:    over,
		},
	)
	return nil
}

// log records a change in the audit log. A failure is reported as a problem, because the change
// itself has happened.
func (s *Set) log(c measure.Change) {
	c.At = now()
	b, err := json.Marshal(c)
	if err == nil {
		err = s.archive.Log(changeKind, c.At, b)
	}
	if err != nil {
		s.setProblem(
			"audit",
			fmt.Sprintf(
				"a change of the datasets (%s by %s) could not be written down: %v", c.Action,
				c.Actor, err,
			),
		)
	}
}

// logGap records why nothing was recorded before a tick, once for the recorders of all steps.
func (s *Set) logGap(at measure.Time, why string) {
	s.mu.Lock()
	known := at < s.gapLogged.Add(shortestGap)
	s.gapLogged = max(s.gapLogged, at)
	s.mu.Unlock()
	if !known {
		s.log(measure.Change{Actor: "culprit", Action: "recorded nothing", Query: why})
	}
}

// logClockChange records that the machine's clock was set.
func (s *Set) logClockChange(action string, over measure.Interval) {
	s.log(measure.Change{Actor: "clock", Action: action, Over: over})
}

// Changes returns the audit log of a time, oldest first; all of it for a zero time. The error is
// the archive's.
func (s *Set) Changes(ctx context.Context, over measure.Interval) ([]measure.Change, error) {
	var all []measure.Change
	err := s.archive.Logged(ctx, changeKind, over, func(_ measure.Time, b []byte) error {
		var c measure.Change
		if err := json.Unmarshal(b, &c); err != nil {
			return fmt.Errorf("read a change: %w", err)
		}
		all = append(all, c)
		return nil
	})
	return all, err
}

// Defaults merges queries into one per statistic: with all fields that any of them needs, in the
// statistic's order, no predicate, and steps of one second. Traced statistics are left out. The
// error is a *measure.Diagnostic for an invalid query.
func (c *Catalogue) Defaults(sentences []string) ([]measure.Query, error) {
	var merged []measure.Query
	for _, text := range sentences {
		q, err := c.Parse(text)
		if err != nil {
			return nil, err
		}
		if !c.Stat(q.Stat).Traced { // traced statistics are recorded only on request
			merged = merge(merged, q, measure.Second)
		}
	}
	for i, q := range merged {
		by := q.By
		q.By, q.Where = nil, nil
		for _, f := range c.Stat(q.Stat).Fields {
			if slices.Contains(by, f.Name) {
				q.By = append(q.By, f.Name)
			}
		}
		merged[i] = q
	}
	return merged, nil
}

// createDefaults creates the default datasets that this archive has never had. A default with more
// fields than an earlier one replaces it, unless a user ended that one.
func (s *Set) createDefaults(sentences []string) error {
	queries, err := s.sourceCatalogue().Defaults(sentences)
	if err != nil {
		return err
	}
	var known []string
	var written measure.Time
	err = s.archive.Logged(
		context.Background(),
		defaultKind,
		measure.Interval{},
		func(at measure.Time, b []byte) error {
			var list []string
			if err := json.Unmarshal(b, &list); err != nil {
				return fmt.Errorf("read the list of defaults: %w", err)
			}
			written = at
			for _, text := range list {
				if !slices.Contains(known, text) {
					known = append(known, text)
				}
			}
			return nil
		},
	)
	if err != nil {
		return err
	}
	// descriptions may be corrupt: recreate what no user has destroyed
	if len(s.archive.Problems()) > 0 {
		changes, err := s.Changes(context.Background(), measure.Interval{})
		known = slices.DeleteFunc(known, func(k string) bool {
			q, bad := measure.ParseQuery(k)
			exists := slices.ContainsFunc(s.Datasets(), func(d measure.Dataset) bool {
				return d.Query.Stat == q.Stat
			})
			destroyed := slices.ContainsFunc(changes, func(c measure.Change) bool {
				return err == nil && c.Action == "destroyed" && c.Query == k
			})
			return bad == nil && !exists && !destroyed
		})
	}
	fresh := false
	var making []measure.Dataset
	var ending [][]measure.Dataset // the datasets that it replaces
	for _, q := range queries {    // one per statistic: none depends on another
		text := q.String()
		var earlier []measure.Dataset // of this statistic, created by default and still recording
		is := false
		for _, d := range s.Datasets() {
			if d.Query.Stat != q.Stat || d.State != measure.Recording {
				continue
			}
			switch ok := sameMeaning(d, s.sourceCatalogue().Stat(q.Stat)); {
			case ok && covers(d.Query, q):
				is = true
			case d.Creator == byDefault:
				earlier = append(earlier, d)
			}
		}
		changed := len(earlier) > 0 && !is // the statistic or its default query has changed
		seen := slices.ContainsFunc(known, func(k string) bool {
			was, err := measure.ParseQuery(k)
			return err == nil && was.Stat == q.Stat
		})
		if is || seen && !changed {
			if !slices.Contains(known, text) {
				known, fresh = append(known, text), true
			}
			continue
		}
		making, ending = append(making, s.describe(byDefault, q)), append(ending, earlier)
		known, fresh = append(known, text), true
	}
	if len(making) > 0 {
		ids, err := s.archive.Add(making)
		if err != nil {
			return err
		}
		for i, d := range making {
			s.log(
				measure.Change{
					Actor:   byDefault,
					Action:  "made",
					Dataset: ids[i],
					Query:   d.Query.String(),
				},
			)
			for _, e := range ending[i] {
				if err := s.changeState(byDefault, e, measure.Suspended); err != nil {
					return err
				}
			}
		}
		s.refresh()
	}
	// Written again daily, because an archive deletes old documents.
	if !fresh && now().Sub(written) < 24*3600*measure.Second {
		return nil
	}
	b, err := json.Marshal(known)
	if err != nil {
		return err
	}
	return s.archive.Log(defaultKind, now(), b)
}
