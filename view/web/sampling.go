package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"culprit/measure"
	"culprit/profile"
	"culprit/view"
)

// The subjects of a sampling. Amounts of waits are ns from the begin to the end of a wait.
const (
	ofCPU      = "cpu"       // what the CPUs execute
	ofOffCPU   = "off-cpu"   // from leaving the CPU until running again
	ofRunQueue = "run-queue" // from being able to run until running
	ofLocks    = "locks"     // waiting for locks
)

// Sampling says what to sample: the subject, the CPUs and the threads.
type Sampling struct {
	Of     string // cpu, off-cpu, run-queue or locks; "": cpu
	Hz     int    // samples per second and CPU; waits are all counted
	CPUs   []int  // empty: all
	For    measure.Span
	Kernel bool // only samples inside the kernel
	User   bool // only samples outside the kernel
	Times  bool // of cpu: samples have their times, as far as there is space

	// Only threads of these are sampled; of each list that is not empty, one must match.
	PIDs, TIDs         []int
	Processes, Cgroups []string // names of processes and threads; paths of control groups
}

// OnCPU reports whether the sampling is of what CPUs execute, and not of waits.
func (q *Sampling) OnCPU() bool { return q.Of == "" || q.Of == ofCPU }

// Sampled is the result of a sampling.
type Sampled struct {
	Tree *profile.Tree
	CPU  measure.Span // CPU time of the process meanwhile, with all its other work; 0: unknown
}

// Limits of a sampling. With the maxima of both, a CPU yields 60,000 samples.
const (
	maxHz       = 999
	maxSampling = 60 * measure.Second
	maxCPUs     = 1024 // in a request
	maxThreads  = 64   // in each list of a request
	maxName     = 255  // bytes of a name or a path
)

// samplingBody is the body of a request to sample.
type samplingBody struct {
	Seconds *float64 `json:"seconds"`
	Hz      *int     `json:"hz"`
	CPUs    []int    `json:"cpus"`
	Only    string   `json:"only"`
	Of      string   `json:"of"`

	PIDs      []int    `json:"pids"`
	Threads   []int    `json:"threads"`
	Processes []string `json:"processes"`
	Cgroups   []string `json:"cgroups"`
}

// parse checks the values and fills in the defaults: 10 seconds, 99 Hz, all CPUs.
func (b *samplingBody) parse() (Sampling, error) {
	q := Sampling{
		Of: ofCPU, Hz: 99, For: 10 * measure.Second, CPUs: b.CPUs, PIDs: b.PIDs, TIDs: b.Threads,
		Processes: b.Processes, Cgroups: b.Cgroups,
	}
	switch b.Of {
	case "", ofCPU:
	case ofOffCPU, ofRunQueue, ofLocks:
		if q.Of = b.Of; b.Hz != nil {
			return q, badRequest("hz: waits are all counted, not sampled")
		}
	default:
		return q, badRequest("of: %q is none of cpu, off-cpu, run-queue and locks",
			printable(b.Of))
	}
	if b.Seconds != nil {
		if !(*b.Seconds >= 0.1 && *b.Seconds <= maxSampling.Seconds()) {
			return q, badRequest("seconds: %v is not from 0.1 to %v",
				*b.Seconds, maxSampling.Seconds())
		}
		q.For = measure.Span(*b.Seconds * float64(measure.Second))
	}
	if b.Hz != nil {
		if q.Hz = *b.Hz; q.Hz < 1 || q.Hz > maxHz {
			return q, badRequest("hz: %d is not from 1 to %d", q.Hz, maxHz)
		}
	}
	q.Times = q.OnCPU()
	if len(q.CPUs) > maxCPUs {
		return q, badRequest("cpus: %d are more than %d", len(q.CPUs), maxCPUs)
	}
	for _, c := range q.CPUs {
		if c < 0 {
			return q, badRequest("cpus: there is no CPU %d", c)
		}
	}
	switch b.Only {
	case "":
	case "kernel":
		q.Kernel = true
	case "user":
		q.User = true
	default:
		return q, badRequest("only: %q is neither kernel nor user", printable(b.Only))
	}
	return q, b.checkThreads()
}

// checkThreads checks the selection of threads.
func (b *samplingBody) checkThreads() error {
	numbers := []struct {
		name   string
		values []int
	}{{"pids", b.PIDs}, {"threads", b.Threads}}
	for _, l := range numbers {
		if len(l.values) > maxThreads {
			return badRequest("%s: %d are more than %d", l.name, len(l.values), maxThreads)
		}
		if i := slices.IndexFunc(l.values, func(n int) bool { return n < 0 }); i >= 0 {
			return badRequest("%s: %d is below 0", l.name, l.values[i])
		}
	}
	texts := []struct {
		name   string
		values []string
	}{{"processes", b.Processes}, {"cgroups", b.Cgroups}}
	for _, l := range texts {
		if len(l.values) > maxThreads {
			return badRequest("%s: %d are more than %d", l.name, len(l.values), maxThreads)
		}
		for _, text := range l.values {
			switch {
			case text == "" || len(text) > maxName || !utf8.ValidString(text):
				return badRequest("%s: a name has 1 to %d bytes of UTF-8", l.name, maxName)
			case l.name == "cgroups" && text[0] != '/':
				return badRequest("cgroups: %s is no path as in /proc/PID/cgroup",
					printable(text))
			}
		}
	}
	return nil
}

// name returns the name of the profile.
func (b *samplingBody) name(q Sampling) string {
	name := strconv.FormatFloat(q.For.Seconds(), 'g', 4, 64) + " s "
	switch q.Of {
	case ofOffCPU:
		name += "off the CPU"
	case ofRunQueue:
		name += "in the run queue"
	case ofLocks:
		name += "waiting for locks"
	default:
		name += "at " + strconv.Itoa(q.Hz) + " Hz"
	}
	for _, p := range q.PIDs {
		name += ", process " + strconv.Itoa(p)
	}
	for _, t := range q.TIDs {
		name += ", thread " + strconv.Itoa(t)
	}
	if threads := slices.Concat(q.Processes, q.Cgroups); len(threads) > 0 {
		name += ", " + strings.Join(threads, ", ")
	}
	if b.Only != "" {
		name += ", " + b.Only
	}
	if len(q.CPUs) > 0 {
		name += ", CPU " + fmt.Sprint(q.CPUs)
	}
	return strings.ToValidUTF8(view.Clean(name[:min(len(name), maxProfileName)]), "")
}

// sample samples the CPUs for some seconds and replies at the end. It stops early if the client
// leaves.
func (s *profiles) sample(w http.ResponseWriter, r *http.Request) error {
	if s.Sample == nil {
		return fmt.Errorf("this server can't sample: %w", measure.ErrUnsupported)
	}
	var body samplingBody
	if err := readBody(r, &body); err != nil {
		return err
	}
	q, err := body.parse()
	if err != nil {
		return err
	}
	select {
	case s.sampling <- struct{}{}:
		defer func() { <-s.sampling }()
	default:
		return busy("this machine is being sampled already", "repeat it when that is over")
	}
	allowLate(w, time.Duration(q.For))
	ctx, end := context.WithCancel(r.Context())
	defer end()
	defer context.AfterFunc(s.ended, end)()
	got, err := s.Sample(ctx, q)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	if got.CPU > 0 {
		note := fmt.Sprintf("the server used %.2f s of CPU time meanwhile, with all its other work",
			got.CPU.Seconds())
		got.Tree.Notes = append(got.Tree.Notes, note)
	}
	if got.Tree.Sum() == 0 {
		return notFound("nothing to show: no selected thread was sampled in this time",
			"choose other threads, or a longer time")
	}
	_, release, err := s.acquireReading(ctx)
	if err != nil {
		return err
	}
	defer release()
	p, err := s.keep(got.Tree, body.name(q), "sample")
	if err != nil {
		return err
	}
	return s.sendJSON(w, r, p.appendJSON(nil))
}
