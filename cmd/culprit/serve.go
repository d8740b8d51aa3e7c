package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"syscall"
	"time"

	"culprit/dataset"
	"culprit/diagnose"
	"culprit/diagnose/rules"
	"culprit/export"
	"culprit/export/self"
	"culprit/kernel"
	"culprit/measure"
	"culprit/store"
	"culprit/trace/sampler"
	"culprit/view"
	"culprit/view/classic"
	"culprit/view/mcp"
	"culprit/view/term"
	"culprit/view/web"
)

// record records the machine that m measures, and serves the recording over HTTP until ctx ends or
// o.For has passed. The error is of the archive, a listener or remote write.
func record(ctx context.Context, o term.Serving, console *term.Teller, p *place) (err error) {
	archive, err := openArchive(ctx, p, o, console)
	if err != nil {
		return withDirectoryHint(err)
	}
	defer func() {
		stop := callAfter(
			time.Second, func() { console.Say("culprit: writing the newest data to disk ...") },
		)
		err = errors.Join(err, archive.Close())
		stop()
	}()
	queries, stacks := defaultQueries(), sampler.NewSampler(o.Profile)
	if o.Profile > 0 {
		for _, st := range stacks.Stats() {
			queries = append(queries, fullQuery(&st))
		}
	} else {
		queries = withoutSource(stacks, queries)
	}
	measuring, err := p.measuring(ctx, archive)
	if err != nil {
		return err
	}
	own := &self.Source{}
	measuring.sources = append(measuring.sources, own)
	queries = append(queries, export.Queries()...)
	set, err := dataset.NewSet(dataset.New(measuring.sources...), archive, queries)
	if err != nil {
		return err
	}
	set.SetBudget(o.Budget)
	if measuring.otherTime != nil {
		set.MeterProcess(measuring.otherTime)
	}
	otherMemory := measuring.otherMemory
	if p.workers != nil {
		set.MeterProcess(p.workers.CPU)
		otherMemory = func() int64 { return measuring.otherMemory() + p.workers.Memory() }
	}
	m := &recordedMachine{
		Set:         set,
		History:     diagnose.NewHistory(set, archive, rules.Set(), kernel.ThreadTime),
		dir:         p.dir,
		size:        o.Size,
		builtin:     map[measure.StatID]bool{},
		otherMemory: otherMemory,
		notifier:    p.notifier,
	}
	own.Read = newSelfReader(m).read
	for _, source := range measuring.sources {
		for _, st := range source.Stats() {
			m.builtin[st.ID] = true
		}
	}
	web, err := newWebServer(p, o, m)
	if err != nil {
		return err
	}
	m.notifier.sender.Page = web.page
	scripts, err := dataset.NewScripts(set, measuring.startScript)
	if err != nil {
		return err
	}
	web.api.Scripts, web.api.Sample = scripts, measuring.sample
	web.api.Complete = measuring.complete
	web.api.MCP = mcp.Handler(mcp.New(&mcpHost{m, web.api}, version))
	defer scripts.Close()
	scripts.Begin()

	if os.Getenv("GOMAXPROCS") == "" {
		p := &processorLimit{runningQueries: web.api.RunningQueries}
		web.api.QueryStarted = p.queryStarted
	}
	if len(p.receivers) > 0 {
		m.writers = newWriters(p.receivers, m)
		set.Meter("remote write", m.writers.spent)
	}
	set.Meter("diagnosis", func() measure.Span {
		return m.Spent() + m.notifier.stream.Spent()
	})
	if len(m.notifier.profiles) > 0 {
		set.Meter("profiles", m.notifier.profilesSpent)
	}
	set.Meter("page and API", web.api.Spent)
	return m.run(ctx, o, console, web, p)
}

// run runs the parts of a server until ctx ends, a listener fails, or o.For has passed.
func (m *recordedMachine) run(
	ctx context.Context, o term.Serving, console *term.Teller, web *webServer, p *place,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var end time.Time // zero: a signal ends it
	if o.For > 0 {
		end = time.Now().Add(o.For)
	}
	var running sync.WaitGroup
	running.Go(func() { m.Set.Run(ctx) })
	running.Go(func() { watchContinued(ctx, m.Set) })
	running.Go(func() { m.History.Run(ctx) })
	running.Go(func() { m.notifier.run(ctx, m.History, m) })
	running.Go(func() { cancel(web.serve(ctx)) })
	for _, w := range m.writers {
		running.Go(func() { w.Run(ctx) })
	}
	running.Go(func() {
		m.printFirstDiagnosis(ctx, console, end)
		if o.For > 0 && sleep(ctx, time.Until(end)) {
			cancel(nil)
		}
	})
	running.Go(func() { m.printProblems(ctx, console) })
	running.Go(func() { notifySystemd(ctx, os.Getenv, p.notify, m) })
	console.Say("culprit records in " + p.shown + " and shows it at\n\n    " + web.address + "\n")
	if o.For > 0 && o.For <= time.Duration(diagnose.HistoryOver) {
		console.Say(
			fmt.Sprintf(
				"It ends after the first diagnosis, which covers %v.", diagnose.HistoryOver,
			),
		)
	}
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Limits of a server, unless the user sets GOMAXPROCS or GOMEMLIMIT.
const (
	// serverCPUs is GOMAXPROCS while a query runs: a long query must not delay a reading. Without
	// queries it is 1: the second processor, which the runtime wakes in case there is work, takes
	// 7 % of the server's CPU time.
	serverCPUs = 2
	// serverIdle is the time after the last query at which GOMAXPROCS becomes 1.
	serverIdle = 10 * time.Second
	// serverMemory is the heap size above which the runtime collects more often than by growth. It
	// is far above the usual size, and the limit in the systemd unit. A limit near the live heap
	// (1.5 times that and 24 MB) lowered the peak by 3 % only.
	serverMemory = 400 << 20
)

// tuneServer sets the runtime's memory limit for a server. tune sets the rest.
func tuneServer() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(serverMemory)
	}
}

// processorLimit sets GOMAXPROCS to serverCPUs while queries run, and to 1 serverIdle after them.
type processorLimit struct {
	runningQueries func() int
	mu             sync.Mutex  // guards the fields below
	raised         bool        // GOMAXPROCS is serverCPUs
	timer          *time.Timer // calls lower; nil: there was no query yet
}

// queryStarted raises GOMAXPROCS and starts the idle time again. The web server calls it.
func (p *processorLimit) queryStarted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		p.timer = time.AfterFunc(serverIdle, p.lower)
	} else {
		p.timer.Reset(serverIdle)
	}
	if !p.raised { // a change stops all goroutines for a moment
		p.raised = true
		runtime.GOMAXPROCS(min(serverCPUs, runtime.NumCPU()))
	}
}

// lower sets GOMAXPROCS to 1, or waits again while a query runs.
func (p *processorLimit) lower() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runningQueries() > 0 {
		p.timer.Reset(serverIdle)
		return
	}
	p.raised = false
	runtime.GOMAXPROCS(1)
}

// A heapTuner sets by how much the heap of a server may grow between garbage collections, and
// returns free memory to the system.
//
// The growth is serverGrowthBytes, at least serverGrowthPercent and at most 100 % of the live heap.
// On a small machine a diagnosis leaves 5 MB of garbage every ten seconds. Growth by 50 % would
// cause a collection (4 ms) for each diagnosis, and more for the readings between. On a large
// machine 50 % would be too much: 33 MB with 65 MB alive.
type heapTuner struct {
	liveMetric [1]metrics.Sample
	percent    int // GOGC as last set; 0: not yet set
	freeMetric [1]metrics.Sample
	released   time.Time // when memory was last returned to the system
}

// serverGrowthBytes is the least growth of a server's heap between collections, in bytes.
const serverGrowthBytes = 10 << 20

// serverGrowthPercent is the least growth, in percent of the live heap: with less, the collections
// of a large heap cost more than the saved memory is worth.
const serverGrowthPercent = 25

// setGrowth sets the growth by the size of the live heap. GOGC of the environment has precedence.
func (h *heapTuner) setGrowth() {
	if os.Getenv("GOGC") != "" {
		return
	}
	h.liveMetric[0].Name = "/gc/heap/live:bytes"
	metrics.Read(h.liveMetric[:])
	if h.liveMetric[0].Value.Kind() != metrics.KindUint64 {
		return
	}
	percent := growthPercent(h.liveMetric[0].Value.Uint64())
	if off := percent - h.percent; off < -5 || off > 5 { // a change stops all goroutines
		debug.SetGCPercent(percent)
		h.percent = percent
	}
}

// The heap grows for a moment when recorded segments are joined. The runtime returns free memory to
// the system within minutes, except a tenth. The server returns it at once if releasableHeap bytes
// or more are free, at most once per releaseInterval, since each time costs a garbage collection.
const (
	releasableHeap  = 8 << 20
	releaseInterval = time.Minute
)

// release returns free heap memory to the system if there is enough of it.
func (h *heapTuner) release() {
	h.freeMetric[0].Name = "/memory/classes/heap/free:bytes"
	metrics.Read(h.freeMetric[:])
	if v := h.freeMetric[0].Value; v.Kind() == metrics.KindUint64 && v.Uint64() >= releasableHeap &&
		time.Since(h.released) >= releaseInterval {
		debug.FreeOSMemory()
		h.released = time.Now()
	}
}

// growthPercent returns the growth for a live heap of that many bytes, in percent of it.
func growthPercent(live uint64) int {
	return int(min(100, max(serverGrowthPercent, 100*serverGrowthBytes/max(1, live))))
}

// withDirectoryHint returns err, with advice if it says that the directory can't be written to.
func withDirectoryHint(err error) error {
	for _, cause := range []error{fs.ErrPermission, syscall.EROFS, syscall.ENOTDIR} {
		if errors.Is(err, cause) {
			return fmt.Errorf("%w: choose a directory that you can write to with --dir", err)
		}
	}
	return err
}

// A starting server waits up to archiveWait for an archive that another process has open, and tries
// every archivePoll. A reader, or a server that is ending, closes it soon.
const (
	archiveWait = 10 * time.Second
	archivePoll = 50 * time.Millisecond
)

// openArchive opens the archive of a recording directory; the caller closes it. It waits for
// another process that has it open. That is no server, since the caller has its socket.
func openArchive(
	ctx context.Context, p *place, o term.Serving, console *term.Teller,
) (*store.Store, error) {
	defer callAfter(
		time.Second, func() { console.Say("culprit: opening the archive in " + p.shown + " ...") },
	)()
	deadline, announced := time.Now().Add(archiveWait), false
	for {
		s, err := store.Open(archivePath(p.dir), store.Options{
			KeepTicks: o.Keep[0], KeepMinutes: o.Keep[1], KeepHours: o.Keep[2], Size: o.Size,
			KeepOld: o.DiskFull == "newest",
		})
		// EAGAIN: another process has the lock (fcntl(2), F_SETLK).
		if !errors.Is(err, syscall.EAGAIN) || time.Now().After(deadline) {
			return s, err
		}
		if !announced {
			console.Say(fmt.Sprintf("culprit: %v; waiting up to %v for it", err, archiveWait))
			announced = true
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(archivePoll):
		}
	}
}

// callAfter calls f after d, unless the caller calls stop before.
func callAfter(d time.Duration, f func()) (stop func()) {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// defaultQueries returns all queries of all tools and rules: a server records them by default.
func defaultQueries() []string {
	all := append(rules.Queries(), web.EventQueries()...)
	for _, t := range classic.All() {
		for _, o := range flagChoices(t) {
			all = append(all, t.Ask(o)...)
		}
	}
	return all
}

// withoutSource returns the queries whose statistic is not one of source. It reuses the slice.
func withoutSource(source measure.Source, queries []string) []string {
	return slices.DeleteFunc(queries, func(text string) bool {
		q, err := measure.ParseQuery(text)
		return err == nil &&
			slices.ContainsFunc(
				source.Stats(), func(st measure.Stat) bool { return st.ID == q.Stat },
			)
	})
}

// fullQuery returns the query for a statistic by all of its fields.
func fullQuery(st *measure.Stat) string {
	q := measure.Query{Stat: st.ID}
	for _, f := range st.Fields {
		q.By = append(q.By, f.Name)
	}
	return q.String()
}

// flagChoices returns option sets that cause a tool to ask all of its queries: no option, and each
// flag with each of its values.
func flagChoices(t *view.Tool) []view.Options {
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

// A recordedMachine is the machine that a server records. It implements web.Machine.
type recordedMachine struct {
	*dataset.Set
	*diagnose.History
	dir  string
	size int64 // limit of the archive in bytes; 0: none
	// builtin has the statistics that are not of D programs of users.
	builtin map[measure.StatID]bool
	writers writers // of remote write
	// notifier follows the findings.
	notifier *notifier
	// otherMemory returns the resident bytes of the other processes; nil: there are none.
	otherMemory func() int64

	mu         sync.Mutex // guards the fields below
	diskBytes  int64      // size of the archive
	diskReadAt time.Time  // when that was measured
}

// Health returns the health of the Set, and adds memory, disk space, diagnosis and remote write.
func (m *recordedMachine) Health() measure.Health {
	h := m.Set.Health()
	h.Memory, h.DiskLimit, h.Disk = kernel.ResidentMemory(), m.size, m.archiveBytes()
	if m.otherMemory != nil {
		h.Memory += m.otherMemory()
	}
	if t := m.History.Trouble(); t != "" {
		h.Problems = append(h.Problems, measure.Problem{Key: "diagnosis", Text: t})
	}
	h.Problems = append(h.Problems, m.notifier.problems()...)
	h.Refused = m.writers.lost()
	h.Problems = append(h.Problems, m.writers.problems()...)
	return h
}

// archiveBytes returns the size of the archive and its damaged files in bytes, at most ten seconds
// old.
func (m *recordedMachine) archiveBytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.diskReadAt) < 10*time.Second {
		return m.diskBytes
	}
	m.diskBytes, m.diskReadAt = 0, time.Now()
	// The compactor deletes files meanwhile: a missing file is no error.
	_ = filepath.WalkDir(
		filepath.Join(m.dir, "archive"),
		func(_ string, e os.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				if info, err := e.Info(); err == nil {
					m.diskBytes += info.Size()
				}
			}
			return nil
		},
	)
	if damaged, err := store.DamagedDirectories(archivePath(m.dir)); err == nil {
		for _, d := range damaged {
			m.diskBytes += d.Bytes
		}
	}
	return m.diskBytes
}

// printFirstDiagnosis waits for the first diagnosis and prints it. end is when the server ends by
// itself; zero: never.
func (m *recordedMachine) printFirstDiagnosis(
	ctx context.Context, console *term.Teller, end time.Time,
) {
	_, document, err := m.Report(ctx, 0)
	if err != nil {
		if ctx.Err() == nil { // otherwise the server ended before
			console.Say("culprit: the first diagnosis failed: " + err.Error())
		}
		return
	}
	var r diagnose.Report
	if err := json.Unmarshal(document, &r); err != nil {
		console.Say("culprit: the first diagnosis can't be decoded: " + err.Error())
		return
	}
	console.Diagnosis(&r)
	switch left := time.Until(end); {
	case end.IsZero():
		console.Say("culprit continues to record; Ctrl-C ends it.")
	case left > 0:
		console.Say(
			fmt.Sprintf(
				"culprit continues to record for %v; Ctrl-C ends it.",
				max(left.Round(time.Second), time.Second),
			),
		)
	}
}

// sleep waits for d. It returns false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// printProblems prints each problem when it begins and ends. Every five seconds it also tunes the
// heap.
func (m *recordedMachine) printProblems(ctx context.Context, console *term.Teller) {
	ticker := time.NewTicker(5 * time.Second)
	defer ticker.Stop()
	var h heapTuner
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			h.setGrowth()
			h.release()
			console.Trouble(m.Health().Problems)
		}
	}
}

// watchContinued reports to the set that this process was stopped and goes on.
func watchContinued(ctx context.Context, set *dataset.Set) {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	for {
		select {
		case <-ctx.Done():
			return
		case <-continued:
			set.Continued()
		}
	}
}
