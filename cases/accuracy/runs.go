package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"culprit/cases"
)

// Run is one diagnosis of one scene: a line of the data.
type Run struct {
	At      time.Time `json:"at"`
	Commit  string    `json:"commit"` // with "+" if the tree had changes
	Kernel  string    `json:"kernel"`
	CPUs    int       `json:"cpus"`
	Story   string    `json:"story"`
	Fault   bool      `json:"fault"`  // it has a fault; otherwise it is healthy
	Five    bool      `json:"five"`   // it is one of the five of the tutorials, or a twin of them
	Beside  bool      `json:"beside"` // a second, healthy workload ran beside it
	Rank    int       `json:"rank"`   // of the right culprit, from 1; 0: not found, or none
	Severe  int       `json:"severe"` // findings of high and medium severity
	True    int       `json:"true"`   // how many of them name the truth, or what goes with it
	Seconds float64   `json:"seconds"`
	Others  float64   `json:"others"` // CPUs that programs outside the lab used
	Loaded  bool      `json:"loaded"` // that was too much: the machine was not quiet
	// Void is why the run proves nothing: the scene was not as it should be. "" if it counts.
	Void  string   `json:"void,omitempty"`
	Wrong []string `json:"wrong,omitempty"` // what was wrong with the diagnosis
}

// mode is a story with or without the second workload.
type mode struct {
	story  string
	beside bool
}

// maxLine bounds a line of the data in bytes.
const maxLine = 64 << 10

// readRuns reads the data: one JSON object per line, oldest first. The error names the line.
func readRuns(r io.Reader) (runs []Run, err error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	n := 0
	for s.Scan() {
		n++
		if len(bytes.TrimSpace(s.Bytes())) == 0 {
			continue
		}
		var one Run
		d := json.NewDecoder(bytes.NewReader(s.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&one); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if one.Story == "" || one.At.IsZero() || one.Rank < 0 || one.True > one.Severe {
			return nil, fmt.Errorf("line %d: no run: it needs story and at, a rank from 0, and "+
				"no more true findings than severe ones", n)
		}
		runs = append(runs, one)
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	return runs, nil
}

// readFile reads the data of a file; none if there is no file.
func readFile(path string) ([]Run, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	runs, err := readRuns(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return runs, nil
}

// appendRun adds a line to the data, in one write: a run that is killed leaves whole lines.
func appendRun(path string, r Run) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// The newest runs of a mode count: more for the five stories of the tutorials and their twins.
const (
	windowOfFive  = 20
	windowOfOther = 10
)

// window returns how many runs of the mode of a run count.
func window(r Run) int {
	if r.Five {
		return windowOfFive
	}
	return windowOfOther
}

// ofFive reports whether the story is one of the five, or the twin of one.
func ofFive(story string) bool {
	return slices.ContainsFunc(cases.Five(), func(name string) bool {
		s, err := cases.Find(name)
		return err == nil && (story == name || story == s.Twin)
	})
}

// newest returns the runs that count, by mode: the newest, those on a quiet machine before those on
// a loaded one. Void runs do not count.
func newest(runs []Run) map[mode][]Run {
	all := map[mode][]Run{}
	for _, r := range runs {
		if r.Void == "" {
			m := mode{r.Story, r.Beside}
			all[m] = append(all[m], r)
		}
	}
	for m, some := range all {
		slices.SortStableFunc(some, func(a, b Run) int {
			if a.Loaded != b.Loaded {
				if a.Loaded {
					return 1
				}
				return -1
			}
			return b.At.Compare(a.At)
		})
		all[m] = some[:min(len(some), window(some[0]))]
	}
	return all
}

// summary is what the runs of one mode show.
type summary struct {
	Runs, Loaded       int
	Found, First, Near int // runs with the right culprit, with it first, and among the first three
	Severe, True       int
	Accused            int // runs with a false accusation
	Seconds            []float64
}

// add adds a run.
func (s *summary) add(r Run) {
	s.Runs++
	if r.Loaded {
		s.Loaded++
	}
	s.Severe += r.Severe
	s.True += r.True
	if r.True < r.Severe {
		s.Accused++
	}
	if r.Rank == 0 {
		return
	}
	s.Found++
	s.Seconds = append(s.Seconds, r.Seconds)
	if r.Rank == 1 {
		s.First++
	}
	if r.Rank <= 3 {
		s.Near++
	}
}

// summarize returns the summary of runs.
func summarize(runs []Run) (s summary) {
	for _, r := range runs {
		s.add(r)
	}
	slices.Sort(s.Seconds)
	return s
}

// share formats n of all: "95 %"; "-" of none.
func share(n, all int) string {
	if all == 0 {
		return "-"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", 100*float64(n)/float64(all)), ".0") + " %"
}
