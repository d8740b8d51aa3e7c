package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"syscall"
	"time"

	"culprit/collect"
	"culprit/dataset"
	"culprit/diagnose"
	"culprit/diagnose/rules"
	"culprit/kernel"
	"culprit/measure"
	"culprit/store"
	"culprit/trace"
	"culprit/trace/sampler"
	"culprit/view"
	"culprit/view/prom"
	"culprit/view/term"
)

// serve records this machine, and serves what it records, until the context ends.
func serve(ctx context.Context, o term.Serving, tell *term.Teller) (err error) {
	tuneServer()
	dir, err := myDirectory(o.Dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return unusable(fmt.Errorf("make the directory of what is recorded: %w", err))
	}
	archive, err := openArchive(ctx, dir, o, tell)
	if err != nil {
		return unusable(err)
	}
	defer func() {
		slow := after(
			time.Second, func() { tell.Say("culprit: writing what is not on disk yet ...") },
		)
		err = errors.Join(err, archive.Close())
		slow()
	}()
	all, sentences := sources(
		collect.Env{Netns: diagnoseNetns(), Long: true, Programs: !o.Commands},
		trace.Budget(o.Budget),
	), defaults()
	sampler := sampler.NewSampler(o.Profile)
	if o.Profile > 0 {
		all = append(all, sampler)
		for _, st := range sampler.Stats() {
			sentences = append(sentences, whole(&st))
		}
	} else {
		sentences = notOf(sampler, sentences)
	}
	set, err := dataset.NewSet(dataset.New(all...), archive, sentences)
	if err != nil {
		return err
	}
	set.SetBudget(o.Budget)
	m := &served{
		Set:     set,
		History: diagnose.NewHistory(set, archive, rules.Set(), kernel.ThreadTime),
		dir:     dir,
		size:    o.Size,
	}
	door, err := openDoor(dir, o, m)
	if err != nil {
		return err
	}
	scripts, err := dataset.NewScripts(set, startScript)
	if err != nil {
		return err
	}
	door.site.Scripts, door.site.Sample = scripts, sampled
	defer scripts.Close()
	scripts.Begin()

	if os.Getenv("GOMAXPROCS") == "" {
		p := &processors{questions: door.site.RunningQueries}
		door.site.QueryStarted = p.asked
	}
	if o.WriteTo != "" {
		if m.writer, err = writer(o, m); err != nil {
			return err
		}
		set.Meter("remote write", m.writer.Spent)
	}
	set.Meter("diagnosis", m.Spent)
	set.Meter("page and API", door.site.Spent)

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var ends time.Time // zero: when it is told to
	if o.For > 0 {
		ends = time.Now().Add(o.For)
	}
	var running sync.WaitGroup
	running.Go(func() { set.Run(ctx) })
	running.Go(func() { m.History.Run(ctx) })
	running.Go(func() { stop(door.serve(ctx)) })
	if m.writer != nil {
		running.Go(func() { m.writer.Run(ctx) })
	}
	running.Go(func() {
		m.first(ctx, tell, ends)
		if o.For > 0 && wait(ctx, time.Until(ends)) {
			stop(nil)
		}
	})
	running.Go(func() { m.watch(ctx, tell) })
	running.Go(func() { notifySystemd(ctx, os.Getenv, m) })
	tell.Say("culprit records in " + dir + " and shows it at\n\n    " + door.address + "\n")
	if o.For > 0 && o.For <= time.Duration(diagnose.HistoryOver) {
		tell.Say(
			fmt.Sprintf("It ends after the first diagnosis, which is of %v.", diagnose.HistoryOver),
		)
	}
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// writer makes what sends what is recorded to an engine elsewhere.
func writer(o term.Serving, m *served) (*prom.Writer, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	w, err := prom.New(m, m.Datasets, version).
		NewWriter(o.WriteTo, os.Getenv("CULPRIT_REMOTE_WRITE_TOKEN"), o.WriteEach, host)
	if err == nil {
		w.CPU, w.Ticks = kernel.ThreadTime, m.Tick
	}
	return w, err
}

// The most that a server takes of a machine, unless the user has set GOMAXPROCS or GOMEMLIMIT.
const (
	// serverCPUs is while somebody asks for the past: a long question must not hold up a reading.
	// At rest it is one: a second one that the runtime wakes in case there is work for it takes 7 %
	// of what the server costs.
	serverCPUs = 2
	// serverRest is how long after a question the server is at rest.
	serverRest = 10 * time.Second
	// serverMemory is from where on the heap is collected more eagerly than by its growth: far
	// above what a server usually has, and as much as the systemd unit allows. A bound near to what
	// is alive (that and half of it and 24 MB) took 3 % off the peak.
	serverMemory = 400 << 20
)

// tuneServer fits the Go runtime to a server; see tune.
func tuneServer() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(serverMemory)
	}
}

// processors gives the Go runtime serverCPUs while there are questions, and for a while after.
type processors struct {
	questions func() int // that are worked on
	mu        sync.Mutex // guards what follows
	many      bool
	rests     *time.Timer // nil: there was no question yet
}

// asked is told that there is a question.
func (p *processors) asked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rests == nil {
		p.rests = time.AfterFunc(serverRest, p.rest)
	} else {
		p.rests.Reset(serverRest)
	}
	if !p.many { // it stops all for a moment
		p.many = true
		runtime.GOMAXPROCS(min(serverCPUs, runtime.NumCPU()))
	}
}

func (p *processors) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.questions() > 0 {
		p.rests.Reset(serverRest)
		return
	}
	p.many = false
	runtime.GOMAXPROCS(1)
}

// heap lets the heap of a server grow between collections by serverGrowth, but by no less than
// serverShare of what is alive and no more than to the double. A diagnosis makes 5 MB that nobody
// needs after it, and each ten seconds there is one: the heap of a small machine would be collected
// for it alone, and again for what each second makes. One collection takes 4 ms there. On a large
// machine what may grow is most of what could be spared: with 65 MB alive, half of it was 33.
type heap struct {
	live     [1]metrics.Sample
	percent  int
	free     [1]metrics.Sample
	released time.Time // when memory was last given back
}

// serverGrowth is the least that the heap of a server grows between collections: an eighth of what
// a server may take.
const serverGrowth = 10 << 20

// serverShare is by how much of itself the heap of a server grows at least, in percent: below it
// collections of a large heap cost more than the memory is worth.
const serverShare = 25

// fit fits the growth to what is alive.
func (h *heap) fit() {
	if os.Getenv("GOGC") != "" {
		return
	}
	h.live[0].Name = "/gc/heap/live:bytes"
	metrics.Read(h.live[:])
	if h.live[0].Value.Kind() != metrics.KindUint64 {
		return
	}
	percent := growth(h.live[0].Value.Uint64())
	if off := percent - h.percent; off < -5 || off > 5 { // it stops all for a moment
		debug.SetGCPercent(percent)
		h.percent = percent
	}
}

// The heap grows for a moment when recorded segments are joined. The runtime returns free memory to
// the system within minutes, except a tenth. The server returns it at once if heapSpare bytes or
// more are free, at most once per heapAgain, since each time costs a garbage collection.
const (
	heapSpare = 8 << 20
	heapAgain = time.Minute
)

// release returns free heap memory to the system.
func (h *heap) release() {
	h.free[0].Name = "/memory/classes/heap/free:bytes"
	metrics.Read(h.free[:])
	if v := h.free[0].Value; v.Kind() == metrics.KindUint64 && v.Uint64() >= heapSpare &&
		time.Since(h.released) >= heapAgain {
		debug.FreeOSMemory()
		h.released = time.Now()
	}
}

// growth gives by how much of itself a heap of so many bytes may grow, in percent.
func growth(live uint64) int {
	return int(min(100, max(serverShare, 100*serverGrowth/max(1, live))))
}

// unusable says what to do about a directory that this user may not or can't write to.
func unusable(err error) error {
	for _, why := range []error{fs.ErrPermission, syscall.EROFS, syscall.ENOTDIR} {
		if errors.Is(err, why) {
			return fmt.Errorf("%w: give a directory that you may write to with --dir", err)
		}
	}
	return err
}

// How long a start waits for an archive that another process has open, and how often it looks: who
// reads it is done in a moment, and so is a server that ends. One that runs is not waited for.
const (
	waitForArchive = 10 * time.Second
	lookForArchive = 50 * time.Millisecond
)

// openArchive opens the archive in a directory, which only one process may have open.
func openArchive(
	ctx context.Context, dir string, o term.Serving, tell *term.Teller,
) (*store.Store, error) {
	defer after(
		time.Second, func() { tell.Say("culprit: opening what was recorded in " + dir + " ...") },
	)()
	until, said := time.Now().Add(waitForArchive), false
	for {
		s, err := store.Open(archiveOf(dir), store.Options{
			KeepTicks: o.Keep[0], KeepMinutes: o.Keep[1], KeepHours: o.Keep[2], Size: o.Size, KeepOld: o.DiskFull == "newest"})
		// EAGAIN is the lock's: fcntl(2), F_SETLK.
		if !errors.Is(err, syscall.EAGAIN) || time.Now().After(until) {
			return s, err
		}
		if c, dialed := dial(dir); dialed == nil {
			c.Close()
			return nil, err
		}
		if !said {
			tell.Say(fmt.Sprintf("culprit: %v; waiting up to %v for it", err, waitForArchive))
			said = true
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(lookForArchive):
		}
	}
}

// after calls f after a while, unless what it gives is called before.
func after(d time.Duration, f func()) (stop func()) {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// defaults lists every sentence that a tool or a rule may ask.
func defaults() []string {
	all := rules.Queries()
	for _, t := range view.Tools() {
		for _, o := range choices(t) {
			all = append(all, t.Ask(o)...)
		}
	}
	return all
}

// notOf gives the sentences that ask another source.
func notOf(source measure.Source, sentences []string) []string {
	return slices.DeleteFunc(sentences, func(text string) bool {
		q, err := measure.ParseQuery(text)
		return err == nil &&
			slices.ContainsFunc(
				source.Stats(), func(st measure.Stat) bool { return st.ID == q.Stat },
			)
	})
}

// whole gives the sentence that asks for all of a statistic.
func whole(st *measure.Stat) string {
	q := measure.Query{Stat: st.ID}
	for _, f := range st.Fields {
		q.By = append(q.By, f.Name)
	}
	return q.String()
}

// choices gives the options of a tool: none, and each flag with each of its values.
func choices(t *view.Tool) []view.Options {
	all := []view.Options{{}}
	for _, f := range t.Flags {
		values := f.Values
		if len(values) == 0 {
			values = []string{""}
		}
		for _, v := range values {
			all = append(all, view.Options{f.Name: {v}})
		}
	}
	return all
}

// served is a machine that is being recorded: what the server tells of.
type served struct {
	*dataset.Set
	*diagnose.History
	dir    string
	size   int64
	writer *prom.Writer // nil: it writes nowhere

	mu     sync.Mutex // guards both below
	disk   int64      // bytes of the archive
	looked time.Time  // when that was
}

// Health is the Set's, with what the process and its directory take.
func (m *served) Health() measure.Health {
	h := m.Set.Health()
	h.Memory, h.DiskLimit, h.Disk = kernel.ResidentMemory(), m.size, m.bytes()
	if t := m.History.Trouble(); t != "" {
		h.Problems = append(h.Problems, measure.Problem{Key: "diagnosis", Text: t})
	}
	if m.writer != nil {
		h.Refused = m.writer.Lost()
		if t := m.writer.Trouble(); t != "" {
			h.Problems = append(h.Problems, measure.Problem{Key: "remote write", Text: t})
		}
	}
	return h
}

// bytes gives the size of the archive, as it was some seconds ago at most.
func (m *served) bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.looked) < 10*time.Second {
		return m.disk
	}
	m.disk, m.looked = 0, time.Now()
	// Files come and go meanwhile: those that are gone are passed over.
	_ = filepath.WalkDir(
		filepath.Join(m.dir, "archive"),
		func(_ string, e os.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				if info, err := e.Info(); err == nil {
					m.disk += info.Size()
				}
			}
			return nil
		},
	)
	return m.disk
}

// first tells the first diagnosis, and what comes after it.
func (m *served) first(ctx context.Context, tell *term.Teller, ends time.Time) {
	_, document, err := m.Report(ctx, 0)
	if err != nil {
		if ctx.Err() == nil { // else it was told to end before
			tell.Say("culprit: there is no first diagnosis: " + err.Error())
		}
		return
	}
	var r diagnose.Report
	if err := json.Unmarshal(document, &r); err != nil {
		tell.Say("culprit: the first diagnosis can't be shown: " + err.Error())
		return
	}
	tell.Diagnosis(&r)
	switch left := time.Until(ends); {
	case ends.IsZero():
		tell.Say("culprit goes on recording; Ctrl-C ends it.")
	case left > 0:
		tell.Say(
			fmt.Sprintf(
				"culprit goes on recording for %v; Ctrl-C ends it.",
				max(left.Round(time.Second), time.Second),
			),
		)
	}
}

// wait waits, unless the context ends before: then it gives false.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// watch tells what goes wrong, as it begins and ends.
func (m *served) watch(ctx context.Context, tell *term.Teller) {
	every := time.NewTicker(5 * time.Second)
	defer every.Stop()
	var h heap
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			h.fit()
			h.release()
			tell.Trouble(m.Health().Problems)
		}
	}
}
