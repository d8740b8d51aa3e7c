// Attack runs attacks against a running `culprit serve`, its clients and its archive, and prints
// for each one the expected result, the result, the memory of each process and the seconds that
// were not recorded. The exit status is 1 if an attack succeeded.
//
//	go run ./cases/attack -list              lists the attacks
//	go run ./cases/attack -only S3,S5        runs two of them
//	go run ./cases/attack -kills 200         kills each process in turn instead
//
// It needs root. Everything runs in network namespaces and control groups of its own, which are
// removed however the program ends.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"culprit/cases"

	"golang.org/x/sys/unix"
)

// options are the arguments, the same for the program and the process that it starts within the
// namespaces.
type options struct {
	culprit string // the program under test
	tree    string // the directory of go.mod
	only    string // names of attacks, separated by commas; "": all
	kills   int    // kill processes that many times instead; 0: attacks
	seed    uint64
	list    bool
}

func parse(args []string, errs io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("attack", flag.ContinueOnError)
	f.SetOutput(errs)
	f.StringVar(&o.culprit, "culprit", "bin/culprit", "the program under test")
	f.StringVar(&o.tree, "tree", ".", "the directory of the source")
	f.StringVar(&o.only, "only", "", "names of attacks, separated by commas")
	f.IntVar(&o.kills, "kills", 0, "kill each process in turn, this many times in all")
	f.Uint64Var(&o.seed, "seed", rand.Uint64(), "-kills: of the random moments")
	f.BoolVar(&o.list, "list", false, "list the attacks")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	for _, name := range o.names() {
		if !known(name) {
			return o, fmt.Errorf("no attack is called %q; -list lists them", name)
		}
	}
	return o, nil
}

// names returns the names of -only; nil: all.
func (o options) names() []string {
	return strings.FieldsFunc(o.only, func(r rune) bool { return r == ',' })
}

// wanted reports whether an attack is to run.
func (o options) wanted(name string) bool {
	if o.only == "" {
		return true
	}
	for _, n := range o.names() {
		if n == name {
			return true
		}
	}
	return false
}

// The environment of the process within the namespaces.
const (
	envGroup = "CULPRIT_ATTACK_CGROUP" // directory of the server's control group
	envFar   = "CULPRIT_ATTACK_FAR"    // name of the namespace of another machine
	envDir   = "CULPRIT_ATTACK_DIR"    // directory of the run, removed at its end
)

func main() {
	cases.Act() // this program is also the lab's guardian
	if len(os.Args) > 1 && os.Args[1] == "act" {
		os.Exit(act(os.Args[2:]))
	}
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(2)
	case o.list:
		list(os.Stdout)
		return
	}
	run := outside
	if os.Getenv(envDir) != "" {
		run = inside
	}
	status, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		status = 1
	}
	os.Exit(status)
}

// memoryLimit is that of the systemd unit, for all processes of the server.
const memoryLimit = 800 << 20

// outside makes the namespaces and control groups, and starts this program within them.
func outside(o options) (status int, err error) {
	l, err := cases.New()
	if err != nil {
		return 1, err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-stop
		if err := l.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "attack:", err)
		}
		os.Exit(1)
	}()
	defer func() { err = errors.Join(err, l.Close()) }()
	box, far := l.Host("box"), l.Host("far")
	l.Veth(box, "eth0", far, "eth0")
	box.Address("eth0", boxAddress+"/24")
	far.Address("eth0", farAddress+"/24")
	group := l.Cgroup("memory", "server")
	group.LimitMemory(memoryLimit)
	if err := l.Err(); err != nil {
		return 1, err
	}
	if err := prepare(l.Dir(), o); err != nil {
		return 1, err
	}
	// Not `ip netns exec`: its /sys has no control groups.
	c := l.Command("nsenter", append([]string{
		"--net=/run/netns/" + box.NS, "unshare", "-m", "--propagation", "private",
		filepath.Join(l.Dir(), "bin", "attack"),
	}, os.Args[1:]...)...)
	c.Env = append(c.Env, envGroup+"="+group.Path, envFar+"="+far.NS, envDir+"="+l.Dir())
	if o.kills > 0 { // the printed seed is the one that is used
		c.Args = append(c.Args, "-seed", fmt.Sprint(o.seed))
	}
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	err = c.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return max(1, exit.ExitCode()), nil
	}
	return 0, err
}

// openAPI describes the routes of the API.
const openAPI = "docs/openapi.yaml"

// The addresses of the two machines.
const (
	boxAddress = "10.99.0.1"
	farAddress = "10.99.0.2"
)

// prepare copies what the attacks need to where each user may read it, and builds the programs that
// are attacks. /tmp is another one for the attacks.
func prepare(dir string, o options) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for from, to := range map[string]string{
		o.culprit: "bin/culprit", self: "bin/attack", filepath.Join(o.tree,
			openAPI): "openapi.yaml",
	} {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), b, 0o755)
		}
		if err != nil {
			return err
		}
	}
	if o.kills > 0 || !o.wanted("S7") {
		return nil
	}
	return buildTwins(dir)
}

// inside runs the attacks in the namespaces that outside made.
func inside(o options) (status int, err error) {
	// /tmp of all attacks, in the mount namespace that outside has made.
	if err := unix.Mount("attack", "/tmp", "tmpfs", 0, "mode=1777"); err != nil {
		return 1, fmt.Errorf("mount /tmp: %w", err)
	}
	if err := raiseFiles(); err != nil {
		return 1, err
	}
	b := &bench{
		options: o, dir: os.Getenv(envDir), group: os.Getenv(envGroup), far: os.Getenv(envFar),
	}
	b.bin = filepath.Join(b.dir, "bin", "culprit")
	defer b.end()
	if o.kills > 0 {
		return b.killMany()
	}
	return b.runAll()
}

// raiseFiles sets the limit of open files to the highest one that is allowed.
func raiseFiles() error {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	files.Cur = files.Max
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &files)
}
