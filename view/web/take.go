package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"culprit/measure"
	"culprit/profile"
)

// Sampling is how the machine is to be sampled.
type Sampling struct {
	Hz     int   // samples a second of each CPU
	CPUs   []int // none: all
	For    measure.Span
	Kernel bool // samples within the kernel alone
	User   bool // samples outside the kernel alone
}

// Sampled is what came of it.
type Sampled struct {
	Tree *profile.Tree
	CPU  measure.Span // CPU time that the process took meanwhile, with all else that it does; 0: not known
}

// What a sampling may take: with the most of both, a CPU gives 60,000 samples.
const (
	mostHz       = 999
	mostSampling = 60 * measure.Second
	mostCPUs     = 1024 // that are named
)

// takeProfile samples the machine for a while, and answers when it is over. Whoever goes away ends it.
func (s *Server) takeProfile(w http.ResponseWriter, r *http.Request) error {
	if s.Sample == nil {
		return fmt.Errorf("this server samples nothing: %w", measure.ErrUnsupported)
	}
	var asked struct {
		Seconds *float64 `json:"seconds"`
		Hz      *int     `json:"hz"`
		CPUs    []int    `json:"cpus"`
		Only    string   `json:"only"`
	}
	if err := body(r, &asked); err != nil {
		return err
	}
	q := Sampling{Hz: 99, For: 10 * measure.Second, CPUs: asked.CPUs}
	if asked.Seconds != nil {
		if !(*asked.Seconds >= 0.1 && *asked.Seconds <= mostSampling.Seconds()) {
			return badf("seconds: %v is not from 0.1 to %v", *asked.Seconds, mostSampling.Seconds())
		}
		q.For = measure.Span(*asked.Seconds * float64(measure.Second))
	}
	if asked.Hz != nil {
		if q.Hz = *asked.Hz; q.Hz < 1 || q.Hz > mostHz {
			return badf("hz: %d is not from 1 to %d", q.Hz, mostHz)
		}
	}
	if len(q.CPUs) > mostCPUs {
		return badf("cpus: %d are more than %d", len(q.CPUs), mostCPUs)
	}
	for _, c := range q.CPUs {
		if c < 0 {
			return badf("cpus: there is no CPU %d", c)
		}
	}
	switch asked.Only {
	case "":
	case "kernel":
		q.Kernel = true
	case "user":
		q.User = true
	default:
		return badf("only: %q is neither kernel nor user", printable(asked.Only))
	}
	select {
	case s.oneSampling <- struct{}{}:
		defer func() { <-s.oneSampling }()
	default:
		return &fault{status: http.StatusServiceUnavailable, Code: "busy", Message: "somebody else samples this machine already", Hint: "ask again when it is over"}
	}
	// A listener without a deadline has none to set.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Duration(q.For) + answerTime))
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
		got.Tree.Notes = append(got.Tree.Notes, fmt.Sprintf("the server took %.2f s of CPU time meanwhile, with all else that it does", got.CPU.Seconds()))
	}
	_, done, err := s.profiling(ctx)
	if err != nil {
		return err
	}
	defer done()
	name := strconv.FormatFloat(q.For.Seconds(), 'g', 4, 64) + " s at " + strconv.Itoa(q.Hz) + " Hz"
	if asked.Only != "" {
		name += ", " + asked.Only
	}
	if len(q.CPUs) > 0 {
		name += ", CPU " + fmt.Sprint(q.CPUs)
	}
	p, err := s.keep(got.Tree, name, "sample")
	if err != nil {
		return err
	}
	return s.sendJSON(w, r, p.appendJSON(nil))
}
