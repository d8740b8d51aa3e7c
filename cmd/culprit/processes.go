package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"culprit/collect"
	"culprit/confine"
	"culprit/dataset"
	"culprit/kernel"
	"culprit/measure"
	"culprit/remote"
	"culprit/store"
	"culprit/supervise"
	"culprit/trace"
	"culprit/trace/sampler"
	"culprit/view/term"
	"culprit/view/web"

	"golang.org/x/sys/unix"
)

// oneProcess in the environment makes `culprit serve` one process, to compare with.
const oneProcess = "CULPRIT_ONE_PROCESS"

// Names of the processes of `culprit serve`.
const (
	recorderName = "recorder"
	serverName   = "server"
)

// serverProcesses runs `culprit serve`: as the process that starts the others, or as one of them.
type serverProcesses struct {
	mu      sync.Mutex
	control *supervise.Control // nil: no supervisor has started this process
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
	control, err := supervise.Attach()
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.control = control
	s.mu.Unlock()
	dir, err := userDirectory(o.Dir)
	if err != nil {
		return err
	}
	switch {
	case control == nil && os.Getenv(oneProcess) != "":
		return serveAlone(ctx, dir, o, console)
	case control == nil:
		return superviseServer(ctx, dir, o, console)
	}
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
	dir         string // for files
	shown       string // for people
	listeners   *listeners
	certificate *tls.Certificate // nil: no TLS
	notify      func(state string)
	measuring   func(context.Context, *store.Store) (*measuring, error)
}

// measuring is what measures this machine: in this process, or in the recorder.
type measuring struct {
	sources     []measure.Source
	startScript dataset.Starter
	sample      func(context.Context, web.Sampling) (*web.Sampled, error)
	otherMemory func() int64        // nil: no other process
	otherTime   func() measure.Span // CPU time of the other process; nil: there is none
}

// recordedSources lists the sources of a server.
func recordedSources(o term.Serving) []measure.Source {
	env := collect.Env{Netns: defaultNetns(), Long: true, Programs: !o.Commands, Masks: o.Masks}
	all := sources(env, trace.Budget(o.Budget))
	if o.Profile > 0 {
		all = append(all, sampler.NewSampler(o.Profile))
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

// serveAlone records and serves in this process.
func serveAlone(
	ctx context.Context, dir string, o term.Serving, console *term.Teller,
) error {
	if err := makeDirectory(dir); err != nil {
		return err
	}
	p := &place{dir: dir, shown: dir, notify: sendToSystemd}
	var err error
	if p.certificate, err = loadCertificate(o); err != nil {
		return err
	}
	if p.listeners, err = openListeners(dir, o, p.certificate != nil); err != nil {
		return err
	}
	defer p.listeners.close() //nolint:errcheck // the server has closed them, or has failed
	p.measuring = func(context.Context, *store.Store) (*measuring, error) {
		return &measuring{
			sources:     recordedSources(o),
			startScript: scriptStarter(o.ScriptMemory),
			sample: func(ctx context.Context, q web.Sampling) (*web.Sampled, error) {
				got, err := sampleStacks(ctx, remote.Sampling(q))
				if err != nil {
					return nil, err
				}
				return profileOfSamples(q, got), nil
			},
		}, nil
	}
	return record(ctx, o, console, p)
}

// superviseServer starts the recorder and the server, and starts each again after its death, until
// ctx ends or the server ends. It ends the process with the exit status of the server.
func superviseServer(
	ctx context.Context, dir string, o term.Serving, console *term.Teller,
) error {
	if err := makeDirectory(dir); err != nil {
		return err
	}
	certificate, err := loadCertificate(o)
	if err != nil {
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
	tcp, err := web.ListenerFile(l.tcp)
	if err != nil {
		return errors.Join(err, l.close())
	}
	socket, err := web.ListenerFile(l.unix)
	if err != nil {
		return errors.Join(err, l.close())
	}
	s := supervise.Supervisor{
		Processes: [2]supervise.Process{
			{Name: recorderName},
			{Name: serverName, Main: true, Files: []*os.File{tcp, socket}, OOM: serverOOM},
		},
		Report: func(text string) { console.Say("culprit: " + text) },
		Notify: sendToSystemd,
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

// runServer records what the recorder measures, and serves it.
func runServer(
	ctx context.Context, control *supervise.Control, dir string, o term.Serving,
	console *term.Teller,
) error {
	if len(control.Files) != 2 {
		return fmt.Errorf("the server has %d listeners", len(control.Files))
	}
	p := &place{dir: dir, shown: dir}
	p.notify = func(state string) { _ = control.Notify(state) } // an error has no receiver
	var err error
	if p.certificate, err = loadCertificate(o); err != nil {
		return err
	}
	p.listeners = &listeners{}
	if p.listeners.tcp, err = web.ListenFile(control.Files[0], false); err != nil {
		return err
	}
	if p.listeners.unix, err = web.ListenFile(control.Files[1], true); err != nil {
		return err
	}
	for _, f := range control.Files {
		_ = f.Close() // the listeners have their own
	}
	if p.dir, err = confineServer(dir, o); err != nil {
		return err
	}
	p.measuring = func(ctx context.Context, archive *store.Store) (*measuring, error) {
		newest := measure.Time(0)
		for _, d := range archive.Datasets() {
			newest = max(newest, archive.Held(d.ID).Over.End)
		}
		return connectRecorder(ctx, control, newest)
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
	if err := confine.ServerFiles(dir, connectPorts(o.WriteTo)...); err != nil {
		return "", err
	}
	return dir, confine.ServerCalls()
}

// connectPorts returns the TCP ports that remote write to an address needs: its own or that of the
// proxy, and that of names. "": none.
func connectPorts(address string) []uint16 {
	u, err := url.Parse(address)
	if err != nil || address == "" {
		return nil // newRemoteWriter returns the error
	}
	all := []uint16{53}
	add := func(u *url.URL) {
		port := map[string]string{"http": "80", "https": "443", "socks5": "1080"}[u.Scheme]
		if p := u.Port(); p != "" {
			port = p
		}
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			all = append(all, uint16(n))
		}
	}
	add(u)
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); err == nil && proxy != nil {
		add(proxy)
	}
	return all
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

// connectRecorder returns the recorder's sources. newest is the newest tick of the archive.
func connectRecorder(
	ctx context.Context, control *supervise.Control, newest measure.Time,
) (*measuring, error) {
	c := remote.NewClient(newest)
	go followPeers(control, func(conn *net.UnixConn) { _ = c.Serve(conn) }) // another one follows
	all, err := c.Sources(ctx)
	if err != nil {
		return nil, err
	}
	return &measuring{
		sources: all,
		startScript: func(k measure.Script) (dataset.Runner, error) {
			s, err := c.StartScript(remote.RoleTrace, k)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		sample: func(ctx context.Context, q web.Sampling) (*web.Sampled, error) {
			got, err := c.Sample(ctx, remote.RoleTrace, remote.Sampling(q))
			if err != nil {
				return nil, err
			}
			return profileOfSamples(q, got), nil
		},
		otherMemory: c.Memory,
		otherTime:   c.CPU,
	}, nil
}

// followPeers calls serve for each connection that the supervisor sends, and ends the process at
// once when the supervisor has died.
func followPeers(control *supervise.Control, serve func(*net.UnixConn)) {
	for {
		conn, err := control.Peer()
		if err != nil {
			os.Exit(1)
		}
		go serve(conn)
	}
}

// runRecorder offers the sources of this machine to the server until the supervisor ends.
func runRecorder(control *supervise.Control, o term.Serving) error {
	// Signals of the terminal's process group are for the server: its last tick is still due.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	if err := confineRecorder(); err != nil {
		return err
	}
	r := remote.NewRecorder(remote.Config{
		Sources:     recordedSources(o),
		StartScript: scriptStarter(o.ScriptMemory),
		Sample:      sampleStacks,
		Usage: func() remote.Usage {
			return remote.Usage{
				CPU:    processTime(),
				Memory: kernel.ResidentMemory() + kernel.ParentMemory(),
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
	for {
		conn, err := control.Peer()
		if err != nil {
			r.Close()
			return nil
		}
		go r.Serve(conn) //nolint:errcheck // another connection follows
	}
}
