package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"culprit/collect"
	"culprit/confine"
	"culprit/dataset"
	"culprit/engine"
	"culprit/export/remotewrite"
	"culprit/kernel"
	"culprit/measure"
	"culprit/remote"
	"culprit/store"
	"culprit/supervise"
	"culprit/symbol"
	"culprit/symbolizer"
	"culprit/trace"
	"culprit/trace/family"
	"culprit/trace/sampler"
	"culprit/view/term"
	"culprit/view/web"
	"culprit/view/web/listen"
	"culprit/worker"

	"golang.org/x/sys/unix"
)

// oneProcess in the environment makes `culprit serve` one process, to compare with.
const oneProcess = "CULPRIT_ONE_PROCESS"

// Names of the processes of `culprit serve`.
const (
	recorderName = "recorder"
	serverName   = "server"
	workerName   = "worker"
)

// serverProcesses runs `culprit serve`: as the process that starts the others, or as one of them.
type serverProcesses struct {
	mu       sync.Mutex
	attached bool               // Attach was called
	control  *supervise.Control // nil: no supervisor has started this process
}

// attach returns the connection to the supervisor; nil: none has started this process. The error is
// that of supervise.Attach.
func (s *serverProcesses) attach() (*supervise.Control, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attached {
		return s.control, nil
	}
	control, err := supervise.Attach()
	if err == nil {
		s.attached, s.control = true, control
	}
	return control, err
}

// exit reports the exit status to the supervisor, so that it does not start the process again.
func (s *serverProcesses) exit(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.control != nil {
		_ = s.control.Exit(status) // a supervisor that has gone starts nothing
	}
}

// serve records this machine and serves the recording over HTTP until ctx ends or o.For has passed.
// The error is of the archive, a listener or remote write. docs/ARCHITECTURE.md has the processes.
func (s *serverProcesses) serve(
	ctx context.Context, o term.Serving, console *term.Teller,
) error {
	tuneServer()
	control, err := s.attach()
	if err != nil {
		return err
	}
	if control != nil && control.Name == workerName {
		signal.Ignore(syscall.SIGHUP)
		setProcessName("culprit-" + workerName)
		return runWorker(control.Stream())
	}
	dir, err := userDirectory(o.Dir)
	if err != nil {
		return err
	}
	switch {
	case control == nil:
		var shown *os.File
		if console.OnTerminal() {
			shown = os.Stdout
		}
		ctx, hangup := followHangups(ctx, shown)
		if os.Getenv(oneProcess) != "" {
			return serveAlone(ctx, dir, o, console, hangup)
		}
		return superviseServer(ctx, dir, o, console, hangup)
	}
	// The terminal's signal is for the process that started this one.
	signal.Ignore(syscall.SIGHUP)
	setProcessName("culprit-" + control.Name[:len(serverName)])
	if control.Name == recorderName {
		return runRecorder(control, o)
	}
	return runServer(ctx, control, dir, o, console)
}

// setProcessName sets what ps shows, at most 15 letters: without it that is the name of the file by
// which the process was started, exe. An error leaves it.
func setProcessName(name string) { _ = os.WriteFile("/proc/self/comm", []byte(name), 0) }

// place says where a server records and answers, and who measures for it.
type place struct {
	dir          string // for files
	shown        string // for people
	listeners    *listeners
	certificates *certificates // nil: no TLS
	notify       func(state string)
	measuring    func(context.Context, *store.Store) (*measuring, error)
	engine       *engine.Client // nil: the page shows no hosts
	receivers    []*remotewrite.Receiver
	workers      *worker.Pool // nil: this process evaluates queries and reads files of strangers
	notifier     *notifier    // of changes of findings
}

// measuring is what measures this machine: in this process, or in the recorder.
type measuring struct {
	sources     []measure.Source
	startScript dataset.Starter
	sample      func(context.Context, web.Sampling) (*web.Sampled, error)
	complete    func(context.Context, web.Completing) (*web.Completion, error)
	otherMemory func() int64        // nil: no other process
	otherTime   func() measure.Span // CPU time of the other process; nil: there is none
}

// recordedSources lists the sources of a server. files reads files of processes; nil: this process
// does.
func recordedSources(o term.Serving, files *symbol.Files) []measure.Source {
	env := collect.Env{
		Netns: defaultNetns(), Long: true, Programs: !o.Commands, Masks: o.Masks,
		NoKernelLog: !o.KernelLog,
	}
	all := sources(env, trace.Budget(o.Budget))
	for _, s := range all {
		if f, ok := s.(*family.Family); ok {
			f.Files = files
		}
	}
	if o.Profile > 0 {
		stacks := sampler.NewSampler(o.Profile)
		stacks.Files = files
		all = append(all, stacks)
	}
	return all
}

// makeDirectory checks the recording directory, and creates it if needed.
func makeDirectory(dir string) error {
	if err := checkDirectory(dir); err != nil {
		return withDirectoryHint(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return withDirectoryHint(fmt.Errorf("create the recording directory: %w", err))
	}
	return nil
}

// serveAlone records and serves in this process. hangup makes it read the certificate again.
func serveAlone(
	ctx context.Context, dir string, o term.Serving, console *term.Teller,
	hangup <-chan os.Signal,
) error {
	if err := makeDirectory(dir); err != nil {
		return err
	}
	p := &place{dir: dir, shown: dir, notify: sendToSystemd}
	certificate, err := readCertificate(o)
	if err != nil {
		return err
	}
	if p.engine, err = openServedFleet(o); err != nil {
		return err
	}
	if p.receivers, err = openReceivers(o.Targets); err != nil {
		return err
	}
	if p.notifier, err = newNotifier(o); err != nil {
		return err
	}
	if certificate != nil {
		p.certificates = &certificates{}
		if err := p.certificates.replace(certificate); err != nil {
			return err
		}
		go watchCertificate(ctx, o, console, hangup, p.certificates.changed)
	}
	if p.listeners, err = openListeners(dir, o, certificate != nil); err != nil {
		return err
	}
	defer p.listeners.close() //nolint:errcheck // the server has closed them, or has failed
	words := &completer{}
	p.measuring = func(context.Context, *store.Store) (*measuring, error) {
		return &measuring{
			sources:     recordedSources(o, nil),
			startScript: scriptStarter(o.ScriptMemory, nil),
			sample: func(ctx context.Context, q web.Sampling) (*web.Sampled, error) {
				got, err := stackSampler(nil)(ctx, remote.Sampling(q))
				if err != nil {
					return nil, err
				}
				return profileOfSamples(q, got), nil
			},
			complete: func(_ context.Context, q web.Completing) (*web.Completion, error) {
				return webCompletion(words.complete(remote.Completing(q)))
			},
		}, nil
	}
	return record(ctx, o, console, p)
}

// superviseServer starts the recorder and the server, and starts each again after its death, until
// ctx ends or the server ends. It ends the process with the exit status of the server. hangup makes
// it read the certificate again.
func superviseServer(
	ctx context.Context, dir string, o term.Serving, console *term.Teller,
	hangup <-chan os.Signal,
) error {
	if err := makeDirectory(dir); err != nil {
		return err
	}
	certificate, err := readCertificate(o)
	if err != nil {
		return err
	}
	if err := openSecrets(o); err != nil { // the server opens them for itself
		return err
	}
	l, err := openListeners(dir, o, certificate != nil)
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		uid, gid := confine.Account()
		if err := confine.Own(dir, uid, gid); err != nil {
			return errors.Join(
				fmt.Errorf("pass the recording directory to the server: %w", err), l.close(),
			)
		}
	}
	tcp, err := listen.File(l.tcp)
	if err != nil {
		return errors.Join(err, l.close())
	}
	socket, err := listen.File(l.unix)
	if err != nil {
		return errors.Join(err, l.close())
	}
	files := []*os.File{tcp, socket}
	recorderConfig, err := configFiles(o, &files)
	if err != nil {
		return errors.Join(err, l.close())
	}
	if certificate != nil {
		file, err := memoryFile("certificate", certificate)
		if err != nil {
			return errors.Join(err, l.close())
		}
		files = append(files, file)
	}
	s := supervise.New([2]supervise.Process{
		{Name: recorderName, Files: []*os.File{recorderConfig}, Workers: supervise.Workers{
			Name: symbolizerName, Max: 2, Hide: []string{writeTokenVariable},
		}},
		{
			Name: serverName, Main: true, Files: files, OOM: serverOOM,
			Workers: supervise.Workers{
				Name: workerName, Max: worker.MaxWorkers, OOM: workerOOM,
				Hide: []string{writeTokenVariable},
			},
		},
	}, func(text string) { console.Say("culprit: " + text) }, sendToSystemd)
	certificateHangup := reloadConfig(ctx, o, console, hangup, s)
	if certificate != nil {
		go passCertificates(ctx, o, console, certificateHangup, s)
	}
	time.AfterFunc(time.Second, debug.FreeOSMemory) // of the start
	status, err := s.Run(ctx)
	err = errors.Join(err, l.close())
	if err == nil {
		os.Exit(status) // the server has said why
	}
	return err
}

// serverOOM is added to the oom_score_adj of the server: the kernel ends it before the recorder.
const serverOOM = 200

// workerOOM is added to that of a worker: the kernel ends it before the server.
const workerOOM = 500

// runServer records what the recorder measures, and serves it.
func runServer(
	ctx context.Context, control *supervise.Control, dir string, o term.Serving,
	console *term.Teller,
) error {
	if n := len(control.Files); n < certificateFile || (n > certificateFile) != (o.Cert != "") {
		return fmt.Errorf("the server has %d files", n)
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	p := &place{dir: dir, shown: dir, workers: worker.NewPool(workerStarter(control))}
	defer p.workers.Close()
	p.notify = func(state string) { _ = control.Notify(state) } // an error has no receiver
	var err error
	if o.Cert != "" {
		p.certificates = &certificates{}
		if err := p.certificates.replaceBy(control.Files[certificateFile]); err != nil {
			return err
		}
		control.Replaced = p.certificates.received
	}
	p.listeners = &listeners{}
	if p.listeners.tcp, err = listen.FromFile(control.Files[0], false); err != nil {
		return err
	}
	if p.listeners.unix, err = listen.FromFile(control.Files[1], true); err != nil {
		return err
	}
	for _, f := range control.Files {
		_ = f.Close() // the listeners have their own
	}
	if p.engine, err = openServedFleet(o); err != nil {
		return err
	}
	if p.receivers, err = openReceivers(o.Targets); err != nil {
		return err
	}
	if p.notifier, err = newNotifier(o); err != nil {
		return err
	}
	if p.dir, err = confineServer(dir, o); err != nil {
		return err
	}
	p.measuring = func(ctx context.Context, archive *store.Store) (*measuring, error) {
		return connectRecorder(ctx, control, leave)
	}
	return record(ctx, o, console, p)
}

// maxServerMemory limits the private memory of the server: above the limit of the systemd unit.
const maxServerMemory = 1 << 30

// confineServer takes from the server what it does not need, and returns the path of its directory.
func confineServer(dir string, o term.Serving) (string, error) {
	if err := os.Chdir(dir); err != nil {
		return "", err
	}
	uid, gid := confine.Account()
	if err := confine.DropRoot(uid, gid); err != nil {
		return "", err
	}
	if err := confine.LimitMemory(maxServerMemory); err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err != nil {
		dir = "." // another directory above it is closed to the user
	}
	if err := confine.ServerFiles(dir, connectPorts(addressesOf(o))...); err != nil {
		return "", err
	}
	return dir, confine.ServerCalls()
}

// recorderCapabilities are those that measuring needs: see packaging/culprit.service.
func recorderCapabilities() []int {
	return []int{
		unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH, unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN,
		unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYSLOG, unix.CAP_SYS_RESOURCE,
	}
}

// confineRecorder takes from the recorder what it does not need. Landlock is not of use: a confined
// process may not look into others.
func confineRecorder() error {
	if err := confine.KeepCapabilities(recorderCapabilities()...); err != nil {
		return err
	}
	_, err := os.Stat("/sys/bus/event_source/devices/kprobe")
	return confine.RecorderCalls(err != nil) // older kernels: probes are made in tracefs
}

// connectRecorder returns the recorder's sources. leave is called when another server is to take
// the place of this one: it continues the recording.
func connectRecorder(
	ctx context.Context, control *supervise.Control, leave func(),
) (*measuring, error) {
	c := remote.NewClient()
	control.Leave = func() {
		c.Leave()
		leave()
	}
	go exitWithSupervisor(control, func(conn *net.UnixConn) error { return c.Serve(conn) })
	all, err := c.Sources(ctx)
	if err != nil {
		return nil, err
	}
	return measuringOf(c, all), nil
}

// measuringOf returns what the sources of a recorder and the recorder itself do for the server. The
// role of the asker is part of each request.
func measuringOf(c *remote.Client, sources []measure.Source) *measuring {
	return &measuring{
		sources: sources,
		startScript: func(k measure.Script) (dataset.Runner, error) {
			s, err := c.StartScript(remote.RoleNamed(k.Role), k)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		sample: func(ctx context.Context, q web.Sampling) (*web.Sampled, error) {
			role := remote.RoleNamed(web.RoleName(ctx))
			got, err := c.Sample(ctx, role, remote.Sampling(q))
			if err != nil {
				return nil, err
			}
			return profileOfSamples(q, got), nil
		},
		complete: func(ctx context.Context, q web.Completing) (*web.Completion, error) {
			role := remote.RoleNamed(web.RoleName(ctx))
			return webCompletion(c.Complete(ctx, role, remote.Completing(q)))
		},
		otherMemory: c.Memory,
		otherTime:   c.CPU,
	}
}

// webCompletion converts a completion for the page.
func webCompletion(got *remote.Completion, err error) (*web.Completion, error) {
	if err != nil {
		return nil, err
	}
	out := &web.Completion{From: got.From, To: got.To, More: got.More}
	for _, w := range got.Words {
		out.Words = append(out.Words, web.CompletionWord(w))
	}
	return out, nil
}

// runRecorder offers the sources of this machine to the server until the supervisor ends.
func runRecorder(control *supervise.Control, o term.Serving) error {
	// Signals of the terminal's process group are for the server: its last tick is still due.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	if err := confineRecorder(); err != nil {
		return err
	}
	names := symbolizer.NewClient(control.StartWorker, func(text string) {
		fmt.Fprintln(os.Stderr, "culprit: "+text)
	})
	files := symbol.NewFiles(names)
	words := &completer{files: files}
	r := remote.NewRecorder(remote.Config{
		Sources:     recordedSources(o, files),
		StartScript: scriptStarter(o.ScriptMemory, files),
		Sample:      stackSampler(files),
		Complete:    words.complete,
		Usage: func() remote.Usage {
			cpu, memory := names.Usage()
			return remote.Usage{
				CPU:    processTime() + measure.Span(cpu),
				Memory: kernel.ResidentMemory() + kernel.ParentMemory() + memory,
			}
		},
	})
	go func() {
		var h heapTuner
		for range time.Tick(5 * time.Second) {
			h.setGrowth()
			h.release()
		}
	}()
	followPeers(control, func(c *net.UnixConn) error { return r.Serve(c) })
	r.Close()
	return nil
}
