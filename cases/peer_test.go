package cases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The tests of DTrace 2.0 for Linux, as its package dtrace-tests brings them, tell what D means.
// They are run from where they were unpacked (CULPRIT_DTRACE_TESTS names the directory that has
// runtest.sh); nothing of them is in this tree.
//
// Their protocol: tst.* end with 0, err.* with 1; err.D_TAG.* say [D_TAG] with -x errtags, drp.*
// [DRP_TAG] with -x droptags; a file .r is what is printed, and behind "-- @@stderr --" what is
// said; .r.p filters it first; addresses and places in the code are the same for all; lines are
// sorted unless @@nosort. A file .x86_64.r goes before .r on machines of that architecture.
//
// A program .t beside a test is its trigger, and goes before @@trigger. A program .x beside a test,
// or test.x in a directory above it, says whether it is one on this machine: 0 that it is, 1 that
// it is known to fail, 2 that there is nothing to test; .x86_64.x says so of one architecture.

// A peerTest is one program of the suite.
type peerTest struct {
	name    string // below test/unittest
	kind    string // tst, err, drp
	tag     string
	flags   []string
	trigger string
	beside  bool // the trigger runs by itself, and its number replaces $_pid
	sort    bool
	timeout time.Duration
	skip    string // why it is no test for us
	part    int    // of the language: 1, 2, 3
	shell   bool   // it is a script of the shell, which runs dtrace by itself
}

var (
	peerOption = regexp.MustCompile(
		`@@([a-z-]+)(?:: *(.*?))?(?: *\*/.*)?$`,
	) // table: made once, never changed
	peerProbe = regexp.MustCompile(
		`(?m)^[ \t]*([A-Za-z_$][\w$*]*):[\w$*.?\[\]-]*:[\w$*.?\[\]-]*:?[\w$*.?\[\]-]*`,
	) // table: made once, never changed
	peerComment = regexp.MustCompile(
		`(?s)/\*.*?\*/|//[^\n]*`,
	) // table: made once, never changed
	peerAddress = regexp.MustCompile(
		`0x[0-9a-f]+|\{ptr\}`,
	) // table: made once, never changed
	peerPlace = regexp.MustCompile(
		` at BPF pc \w+| at line \d+ column \d+: .*`,
	) // table: made once, never changed
	peerShell = regexp.MustCompile(
		`/(io|ip|lockstat|proc|sched|tcp|udp)/tst\.[^/]*\.sh$`,
	) // table: made once, never changed
	// What the language's second and third part add to its first: a test is of the highest part
	// that it wants something of.
	peerSecond = regexp.MustCompile(
		"`" + `|\b(vtimestamp|stddev|cur(ps|lwps)info|fds|execargs|u?(sym|func|mod)|uaddr|tracemem|print|system|freopen|ftruncate|setopt|flowindent|copyinto|cleanpath|dirname|getm(aj|in)or|[hn]to[hn](s|l|ll)|inet_\w+|link_ntop|mutex_\w+|rw_\w+|progenyof|rand|rindex|strr?chr|strstr|strtok|strtoll|tolower|toupper|if)\b *[(=]?|#(define|if|include)|\b(proc|sched|io|tcp|udp|ip|lockstat|vminfo|sysinfo|pid\$?\w*):`,
	) // table: made once, never changed
	peerThird = regexp.MustCompile(
		`\b(speculat\w+|commit|discard|xlate|translator|raise|copyout(str)?|stop|chill|panic|alloca|bcopy|struct|union)\b`,
	) // table: made once, never changed
	peerProvider = []string{
		"",
		"dtrace",
		"profile",
		"syscall",
		"BEGIN",
		"END",
		"ERROR",
		"proc",
		"sched",
		"io",
		"tcp",
		"udp",
		"ip",
		"lockstat",
		"vminfo",
		"sysinfo",
	} // table: providers that every kernel has
)

// readPeer reads what a test says of itself.
func readPeer(root, path string) (peerTest, error) {
	p := peerTest{sort: true, timeout: 41 * time.Second} // as runtest.sh has it
	p.name, _ = filepath.Rel(filepath.Join(root, "test/unittest"), path)
	text, err := os.ReadFile(path)
	if err != nil {
		return p, err
	}
	parts := strings.Split(filepath.Base(path), ".")
	p.kind = parts[0]
	if len(parts) > 2 && strings.HasPrefix(parts[1], "D") && p.kind != "tst" &&
		strings.ToUpper(parts[1]) == parts[1] {
		p.tag = parts[1]
	}
	options := string(text)
	for dir := filepath.Dir(path); strings.HasPrefix(dir, root); dir = filepath.Dir(dir) {
		if b, err := os.ReadFile(filepath.Join(dir, "test.options")); err == nil {
			options += "\n" + string(b)
		}
	}
	var flags []string
	for _, line := range strings.Split(options, "\n") {
		m := peerOption.FindStringSubmatch(strings.TrimRight(line, " \r"))
		if m == nil {
			continue
		}
		switch m[1] {
		case "runtest-opts":
			flags = append(flags, strings.Fields(m[2])...)
		case "trigger":
			if p.trigger == "" {
				p.trigger = m[2]
			}
		case "nosort":
			p.sort = false
		case "timeout":
			if n, err := strconv.Atoi(m[2]); err == nil {
				p.timeout = time.Duration(n+5) * time.Second
			}
		case "skip", "xfail":
			p.skip = m[1] + ": " + m[2]
		case "trigger-timing":
			switch m[2] {
			case "synchro":
			case "before":
				p.beside = true
			default:
				p.skip = "its trigger runs beside it, and begins later"
			}
		}
	}
	p.flags = []string{"-s", "test/unittest/" + p.name}
	switch {
	case p.kind == "err" && p.tag != "":
		p.flags = append([]string{"-xerrtags"}, p.flags...)
	case p.kind == "drp":
		p.flags = append([]string{"-xdroptags"}, p.flags...)
	}
	p.flags = append(p.flags, flags...)
	if p.trigger == "none" {
		p.trigger = ""
	}
	if p.trigger != "" {
		p.trigger = "test/triggers/" + p.trigger
	}
	own := strings.TrimSuffix(path, filepath.Ext(path)) + ".t"
	if st, err := os.Stat(own); err == nil && st.Mode()&0o111 != 0 {
		p.trigger, _ = filepath.Rel(root, own)
	}
	if p.trigger != "" && !p.beside {
		p.flags = append(p.flags, "-c", p.trigger)
	}
	if strings.HasSuffix(path, ".sh") {
		p.shell = true
		if bytes.Contains(text, []byte("/proc/sys/kernel/")) {
			p.skip = "it changes the machine's settings"
		}
		return p, nil
	}
	if bytes.HasPrefix(text, []byte("#!")) {
		p.skip = "it is run by itself"
	}
	bare := peerComment.ReplaceAllString(string(text), "")
	p.part = 1
	if peerSecond.MatchString(bare) ||
		slices.ContainsFunc(
			p.flags,
			func(f string) bool { return strings.HasPrefix(f, "-") && strings.ContainsAny(f, "CF") },
		) {
		p.part = 2
	}
	if peerThird.MatchString(bare) {
		p.part = 3
	}
	for _, m := range peerProbe.FindAllStringSubmatch(bare, -1) {
		if !slices.Contains(peerProvider, m[1]) && !strings.Contains(m[1], "$") &&
			!strings.HasPrefix(m[1], "pid") {
			p.skip = "provider " + m[1]
		}
	}
	return p, nil
}

// machine returns the architecture, as uname -m has it.
func machine() string {
	var u unix.Utsname
	unix.Uname(&u) //nolint:errcheck // it can't fail
	return unix.ByteSliceToString(u.Machine[:])
}

// unfit asks the suite whether a test is one on this machine, and says why not; "": it is one.
func (p *peerTest) unfit(root, dtrace string) string {
	arch := machine()
	path := filepath.Join(root, "test/unittest", strings.TrimSuffix(p.name, filepath.Ext(p.name)))
	up := func(path string) string {
		return filepath.Join(filepath.Dir(strings.TrimSuffix(path, "/test")), "test")
	}
	for ; strings.HasPrefix(path, root); path = up(path) {
		for _, asked := range []string{path + "." + arch + ".x", path + ".x"} {
			st, err := os.Stat(asked)
			if err != nil || st.Mode()&0o111 == 0 {
				continue
			}
			c := exec.Command(asked)
			c.Dir, c.Env = root, append(
				os.Environ(), "dtrace="+dtrace, "_test=test/unittest/"+p.name,
			)
			said, err := c.Output()
			if code := c.ProcessState.ExitCode(); err != nil && (code == 1 || code == 2) {
				return fmt.Sprintf(
					"%s says %d: %s", filepath.Base(asked), code, bytes.TrimSpace(said),
				)
			}
			break
		}
		if path == filepath.Join(root, "test") {
			break
		}
	}
	return ""
}

// run runs a test and says what was wrong; "": nothing.
func (p *peerTest) run(root, dtrace string) string {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	flags := p.flags
	if p.beside {
		pid, stop, err := p.startTrigger(root)
		if err != nil {
			return "trigger: " + err.Error()
		}
		defer stop()
		flags = slices.Clone(flags)
		for i, f := range flags {
			if f == "$_pid" {
				flags[i] = strconv.Itoa(pid)
			}
		}
	}
	c := exec.CommandContext(ctx, dtrace, flags...)
	c.Env = append(
		os.Environ(), "_DTRACE_TESTING=t", "TZ=UTC",
		"_test="+filepath.Join(root, "test/unittest", p.name),
	) // which a .t reads
	if p.shell {
		dir, err := os.MkdirTemp("", "p") // devices are called so, and their names are short
		if err != nil {
			return err.Error()
		}
		defer os.RemoveAll(dir)
		defer exec.Command("ip", "netns", "del", filepath.Base(dir)+"ns").
			Run()
			//nolint:errcheck // most made none
		defer exec.Command("ip", "link", "del", filepath.Base(dir)+"v2").
			Run()
			//nolint:errcheck // as above
		path := filepath.Join(root, "test/unittest", p.name)
		c = exec.CommandContext(ctx, "bash", path, dtrace)
		c.Env = append(
			os.Environ(), "_DTRACE_TESTING=t", "TZ=UTC", "_test="+path, "tmpdir="+dir, "dt_flags=",
		)
		c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
		defer func() { // some leave a process behind
			if c.Process != nil {
				unix.Kill(-c.Process.Pid, unix.SIGKILL) //nolint:errcheck // most leave none
			}
		}()
	}
	c.Dir = root
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 3 * time.Second
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if ctx.Err() != nil {
		return "it did not end"
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) &&
		!errors.Is(err, exec.ErrWaitDelay) { // what is left behind holds the output
		return err.Error()
	}
	status := c.ProcessState.ExitCode()
	said := errs.String()
	if p.tag != "" && !strings.Contains(said, "["+p.tag+"]") {
		return fmt.Sprintf("status %d, not reported [%s] but %.300q", status, p.tag, said)
	}
	want := 0
	if p.kind == "err" {
		want = 1
	}
	if status != want {
		return fmt.Sprintf("status %d, said %.400q", status, said)
	}
	if p.kind == "err" {
		return ""
	}
	base := filepath.Join(root, "test/unittest", strings.TrimSuffix(p.name, filepath.Ext(p.name)))
	expected, err := os.ReadFile(base + "." + machine() + ".r")
	if err != nil {
		expected, err = os.ReadFile(base + ".r")
	}
	if err != nil {
		return ""
	}
	if said != "" {
		fmt.Fprintf(&out, "-- @@stderr --\n%s", said)
	}
	got := out.Bytes()
	if st, err := os.Stat(base + ".r.p"); err == nil && st.Mode()&0o111 != 0 {
		f := exec.Command(base + ".r.p")
		f.Dir, f.Stdin = root, bytes.NewReader(got)
		if got, err = f.Output(); err != nil {
			return fmt.Sprintf(
				"%s.r.p: %v: %.400q of %.400q", filepath.Base(base), err, got, out.Bytes(),
			)
		}
	}
	a, b := p.lines(expected), p.lines(got)
	if !slices.Equal(a, b) {
		for i := range max(len(a), len(b)) {
			var x, y string
			if i < len(a) {
				x = a[i]
			}
			if i < len(b) {
				y = b[i]
			}
			if x != y {
				return fmt.Sprintf("line %d of %d: %q, want %q", i+1, len(a), y, x)
			}
		}
	}
	return ""
}

// startTrigger starts the program that a test looks at, and waits until it has its libraries.
func (p *peerTest) startTrigger(root string) (pid int, stop func(), err error) {
	words := strings.Fields(p.trigger)
	if len(words) == 0 {
		return 0, func() {}, nil
	}
	c := exec.Command(words[0], words[1:]...)
	c.Dir = root
	if err := c.Start(); err != nil {
		return 0, nil, err
	}
	for range 200 {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", c.Process.Pid)); err != nil ||
			bytes.Contains(b, []byte("libc.so")) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return c.Process.Pid, func() {
		c.Process.Kill() //nolint:errcheck // it may have ended
		c.Wait()         //nolint:errcheck // it was killed
	}, nil
}

// compiles says whether a test that fails does so only when it runs. One that is to be refused
// compiles if it is refused as it should be.
func (p *peerTest) compiles(root, dtrace string) bool {
	if p.kind == "err" {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	c := exec.CommandContext(ctx, dtrace, append([]string{"-e"}, p.flags...)...)
	c.Dir = root
	return c.Run() == nil
}

// lines returns what is compared.
func (p *peerTest) lines(b []byte) []string {
	text := peerPlace.ReplaceAllString(peerAddress.ReplaceAllString(string(b), "{ptr}"), "")
	if !p.sort {
		return strings.Split(strings.TrimRight(text, "\n"), "\n")
	}
	all := strings.Split(
		strings.TrimSuffix(text, "\n"), "\n",
	) // an empty line at the end stands first in what was written down sorted
	slices.Sort(all)
	return all
}

// greet says something to everybody who comes, and waits until they go.
func greet(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			fmt.Fprint(c, "SSH-2.0-peer\r\n")
			io.Copy(io.Discard, c) //nolint:errcheck // it is over when they are gone
			c.Close()
		}()
	}
}

// TestPeerSuite runs the suite. What fails must be in the list of what is known to, and what is
// there must fail.
func TestPeerSuite(t *testing.T) {
	root := os.Getenv("CULPRIT_DTRACE_TESTS")
	if root == "" {
		t.Skip("needs: tool dtrace-tests (unpacked, in CULPRIT_DTRACE_TESTS)")
	}
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dtrace := filepath.Join(t.TempDir(), "dtrace")
	if err := os.Symlink(bin, dtrace); err != nil {
		t.Fatal(err)
	}
	only := strings.Fields(
		os.Getenv("CULPRIT_PEER"),
	) // tests that have one of these words in their paths
	part, _ := strconv.Atoi(os.Getenv("CULPRIT_PART")) // of the language; 0: all
	// a factor for the time limit of a test: an emulated machine is slow
	timeout := 1
	if n, err := strconv.Atoi(os.Getenv("CULPRIT_TIMEOUTS")); err == nil && n > 0 {
		timeout = n
	}
	var all []peerTest
	err = filepath.WalkDir(
		filepath.Join(root, "test/unittest"),
		func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() ||
				!regexp.MustCompile(`^(tst|err|drp)\..*\.d$`).MatchString(d.Name()) &&
					!peerShell.MatchString(path) {
				return err
			}
			if len(only) > 0 &&
				!slices.ContainsFunc(
					only, func(word string) bool { return strings.Contains(path, word) },
				) {
				return nil
			}
			p, err := readPeer(root, path)
			p.timeout *= time.Duration(timeout)
			all = append(all, p)
			return err
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{"127.0.0.1:22", "[::1]:22"} { // where tests expect somebody who speaks first
		if l, err := net.Listen("tcp", a); err == nil {
			defer l.Close()
			go greet(l)
		}
	}
	var mu sync.Mutex
	passed, ran, skipped := map[string]int{}, map[string]int{}, 0
	var parts, compiled, executed [4]int // by part of the language
	var wrong, unfit []string
	work := make(chan *peerTest)
	var wait sync.WaitGroup
	for range runtime.NumCPU() + 1 {
		wait.Go(func() {
			for p := range work {
				if why := p.unfit(root, dtrace); why != "" {
					mu.Lock()
					unfit = append(unfit, p.name+": "+why)
					mu.Unlock()
					continue
				}
				said := p.run(root, dtrace)
				group := p.kind
				if p.tag != "" {
					group = "err.D_TAG"
				}
				compiles := said == "" || p.compiles(root, dtrace)
				mu.Lock()
				ran[group]++
				parts[p.part]++
				if compiles {
					compiled[p.part]++
				}
				if said == "" {
					executed[p.part]++
					passed[group]++
				} else {
					how := "compiles, "
					if !compiles {
						how = ""
					}
					wrong = append(wrong, fmt.Sprintf("%s: part %d, %s%s", p.name, p.part, how, said))
				}
				mu.Unlock()
			}
		})
	}
	for i := range all {
		if part > 0 && all[i].part != part {
			continue
		}
		if all[i].skip != "" {
			skipped++
			continue
		}
		work <- &all[i]
	}
	close(work)
	wait.Wait()
	slices.Sort(wrong)
	known, err := os.ReadFile("testdata/peer.known")
	if err != nil {
		t.Fatal(err)
	}
	reasons, classes := map[string]string{}, map[string]int{}
	for line := range strings.Lines(string(known)) {
		if name, why, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			if class, _, ok := strings.Cut(why, " "); !ok ||
				!slices.Contains([]string{"kernel", "machine", "apart", "open"}, class) {
				t.Errorf("peer.known: %s: no class", name)
			}
			reasons[name] = why
		}
	}
	for _, w := range wrong {
		name, what, _ := strings.Cut(w, ": ")
		if why, ok := reasons[name]; ok {
			t.Logf("%s: known: %s: %s", name, why, what)
			class, _, _ := strings.Cut(why, " ")
			part, _, _ := strings.Cut(what, ",")
			classes[part+", "+class]++
			delete(reasons, name)
			continue
		}
		t.Error(w)
	}
	if len(only) == 0 && part == 0 {
		for name, why := range reasons {
			t.Logf("%s passes, and is listed: %s", name, why)
		}
	}
	for group, n := range ran {
		t.Logf("%s: %d of %d passed", group, passed[group], n)
	}
	for i := 1; i <= 3; i++ {
		t.Logf(
			"part %d of the language: %d tests, %d compile as they should, %d pass", i, parts[i],
			compiled[i], executed[i],
		)
	}
	for _, c := range slices.Sorted(maps.Keys(classes)) {
		t.Logf("known to fail, %s: %d", c, classes[c])
	}
	slices.Sort(unfit)
	for _, u := range unfit {
		t.Logf("left out: %s", u)
	}
	t.Logf(
		"%d left out, %d of them because of what the suite says of this machine",
		skipped+len(unfit), len(unfit),
	)
}
