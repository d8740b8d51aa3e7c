package cases

import (
	"bufio"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// envPlay makes the test binary play one story until it is killed: what a test of being killed
// needs.
const envPlay = "CULPRIT_LAB_TEST_PLAY"

func TestMain(m *testing.M) {
	Act()
	if name := os.Getenv(envPlay); name != "" {
		l, err := New()
		if err == nil {
			var s Story
			if s, err = Find(name); err == nil {
				_, err = s.Play(l, Options{})
			}
		}
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(l.Run(), l.guardian.Process.Pid)
		select {}
	}
	// The stories of serve wait for most of their time, but each begins with half a second of work:
	// so many wait together.
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	code := m.Run()
	if p, err := program(); err == nil && strings.Contains(p, "culprit-cases-") {
		os.RemoveAll(filepath.Dir(p))
	}
	os.Exit(code)
}

// needLab skips a test where no lab can be made.
func needLab(t *testing.T) {
	t.Helper()
	if why := Needs(); why != "" {
		t.Skipf("needs: %s", why)
	}
}

// open makes a lab that is closed at the end of the test, and fails the test if something was left
// behind.
func open(t *testing.T) *Lab {
	t.Helper()
	needLab(t)
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// traces lists what there is of a run: namespaces, processes, cgroups, its folder.
func traces(run string) []string {
	found, _ := filepath.Glob("/run/netns/" + run + "-*")
	for _, pid := range processesOf(run) {
		found = append(found, fmt.Sprintf("process %d", pid))
	}
	for _, root := range cgroupRoots() {
		groups, _ := filepath.Glob(filepath.Join(root, run+"-*"))
		found = append(found, groups...)
	}
	if _, err := os.Stat(filepath.Join(stateDir, run)); err == nil {
		found = append(found, filepath.Join(stateDir, run))
	}
	return found
}

func TestCloseLeavesNothing(t *testing.T) {
	l := open(t)
	a, b := l.Host("a"), l.Host("b")
	l.Veth(a, "eth0", b, "eth0")
	a.Address("eth0", "10.0.0.1/24")
	b.Address("eth0", "10.0.0.2/24")
	l.Start(Program{Name: "receiver", Act: "sink", On: b, Args: []string{"-at", "10.0.0.2:7070"}})
	d := l.Start(
		Program{
			Name: "sender",
			Act:  "stream",
			On:   a,
			Args: []string{"-to", "10.0.0.2:7070", "-rate", "1e6", "-chunk", "1000"},
		},
	)
	if HasController("cpu") {
		l.Start(
			Program{
				Name: "tenant",
				Act:  "burn",
				Into: []*Cgroup{l.Cgroup("cpu", "g")},
				Args: []string{"-duty", "0.01"},
			},
		)
	}
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", d.PID))
	if err != nil || strings.TrimSpace(string(comm)) != "sender" {
		t.Errorf("the kernel calls the sender %q (%v)", comm, err)
	}
	if err := waitFor("bytes at b", func() bool { return b.Device("eth0", "rx_bytes") > 100e3 }); err != nil {
		t.Error(err)
	}
	if len(traces(l.Run())) < 4 {
		t.Errorf("while it runs there is only %v", traces(l.Run()))
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if left := traces(l.Run()); len(left) > 0 {
		t.Errorf("after Close there is %v", left)
	}
}

// playApart plays a story in a process of its own and returns that process, the run's name and the
// guardian's id.
func playApart(t *testing.T, story string) (*exec.Cmd, string, int) {
	t.Helper()
	needLab(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), envPlay+"="+story)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	var run string
	var guardian int
	if n, _ := fmt.Sscan(line, &run, &guardian); n != 2 || !strings.HasPrefix(run, namePrefix) {
		c.Process.Kill()
		c.Wait()
		t.Fatalf("the other process said %q", line)
	}
	t.Cleanup(func() { // whatever the test found: nothing stays
		c.Process.Kill()
		c.Wait()
		remove(run, os.Stderr)
	})
	return c, run, guardian
}

func TestKilledRunIsRemovedByItsGuardian(t *testing.T) {
	c, run, _ := playApart(t, "link-half")
	if len(traces(run)) < 5 {
		t.Errorf("while it runs there is only %v", traces(run))
	}
	c.Process.Kill()
	c.Wait()
	if err := waitFor("the guardian's work", func() bool { return len(traces(run)) == 0 }); err != nil {
		t.Errorf("%v: there is %v", err, traces(run))
	}
}

func TestKilledGuardianIsReplacedByTheNextRun(t *testing.T) {
	c, run, guardian := playApart(t, "link-half")
	g, err := os.FindProcess(guardian)
	if err != nil {
		t.Fatal(err)
	}
	g.Kill() // the guardian first, then its owner
	c.Process.Kill()
	c.Wait()
	if len(
		traces(run),
	// Two namespaces and the folder; loads may end by themselves when nobody reads their reports.
	) < 3 {
		t.Fatalf("nobody was left to remove it, and yet there is only %v", traces(run))
	}
	l := open(t)
	if left := traces(run); len(left) > 0 {
		t.Errorf("after the next run's start there is %v", left)
	}
	if err := l.Err(); err != nil {
		t.Error(err)
	}
}

func TestNextRunLeavesLivingOnesAlone(t *testing.T) {
	_, run, _ := playApart(t, "link-idle")
	before := len(traces(run))
	open(t)
	if after := len(traces(run)); after < before {
		t.Errorf("of %d traces of a living run %d are left", before, after)
	}
}

func TestRemoveRefusesNamesThatAreNotOurs(t *testing.T) {
	for _, run := range []string{"", "culab", "x", "../etc"} {
		var said strings.Builder
		remove(run, &said)
		if !strings.Contains(said.String(), "not the name of a run") {
			t.Errorf("remove(%q) said %q", run, &said)
		}
	}
}

func TestCatalogue(t *testing.T) {
	seen := map[string]Story{}
	for _, s := range Catalogue() {
		if _, twice := seen[s.Name]; twice || s.Name == "" || s.Help == "" || s.build == nil {
			t.Errorf("story %q is there twice or isn't whole", s.Name)
		}
		seen[s.Name] = s
	}
	for _, s := range seen {
		if s.Twin == "" {
			continue
		}
		if twin, ok := seen[s.Twin]; !ok || twin.Twin != "" {
			t.Errorf("the twin of %s is %q, which is no healthy story", s.Name, s.Twin)
		}
	}
	if _, err := Find("no-such"); err == nil || !strings.Contains(err.Error(), "link-saturated") {
		t.Errorf("Find of an unknown story says %v, not which there are", err)
	}
}

func TestWireBytes(t *testing.T) {
	frame := func(bytes int, kind byte, head, size uint16) []byte {
		b := make([]byte, vnetHeader+bytes)
		b[1] = kind
		binary.LittleEndian.PutUint16(b[2:], head)
		binary.LittleEndian.PutUint16(b[4:], size)
		return b
	}
	for _, c := range []struct {
		what string
		b    []byte
		want int
	}{
		{"a full frame", frame(1514, 0, 0, 0), 1538},
		{"one segment of a super-frame", frame(66+1448, 1, 66, 1448), 1538},
		// The story's super-frame: 65,226 bytes in memory, 45 segments, 69,210 on the wire.
		{"45 segments", frame(66+45*1448, 1, 66, 1448), 69210},
		{"a short last segment", frame(66+1448+1, 1, 66, 1448), 1538 + 66 + 1 + wireExtra},
		{"headers only", frame(66, 1, 66, 1448), 90},
	} {
		if got := wireBytes(c.b); got != c.want {
			t.Errorf("%s takes %d bytes on the wire, want %d", c.what, got, c.want)
		}
	}
}

func TestPace(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &pace{rate: 1e9}
	for range 1000 {
		if err := p.wait(ctx, 1e3); err != nil { // a microsecond each
			t.Fatal(err)
		}
	}
	if ahead := time.Until(p.next); ahead > time.Millisecond {
		t.Errorf("after 1000 steps of a microsecond the pace is %v ahead of the clock", ahead)
	}
	cancel()
	if err := p.wait(ctx, 1e12); err == nil {
		t.Error("a wait of 1000 s under a cancelled context said nothing")
	}
	if err := (&pace{}).wait(ctx, 1); err == nil {
		t.Error("no limit, but the context is cancelled, and wait said nothing")
	}
}
