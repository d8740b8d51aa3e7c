package connection

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"culprit/collect"
	"culprit/kernel"
	"culprit/kernel/netlink"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// resident starts a process in a network namespace of its own. Both end with the test, or when it
// dies, which closes the process's standard input.
func resident(t *testing.T) (pid int, ns netlink.Namespace) {
	t.Helper()
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	in, err := cmd.StdinPipe()
	must(t, err)
	switch err := cmd.Start(); {
	case errors.Is(err, exec.ErrNotFound):
		t.Skip("needs: tool cat")
	case err != nil:
		t.Skip("needs: cap:CAP_SYS_ADMIN:", err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	pid = cmd.Process.Pid
	ns, err = netlink.FindNamespace(kernel.Root{}, "pid:"+strconv.Itoa(pid))
	must(t, err)
	return pid, ns
}

// TestFlowsOfNamespaces moves a known amount between two namespaces. Each has its end, to the byte,
// and the device between them counts that plus headers.
func TestFlowsOfNamespaces(t *testing.T) {
	t.Run("by dumps", func(t *testing.T) { flowsOfNamespaces(t, Flows{}) })
	t.Run("by a walk over sockets", func(t *testing.T) {
		walkable(t)
		flowsOfNamespaces(t, Flows{walk: true})
	})
}

func flowsOfNamespaces(t *testing.T, flows Flows) {
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs: tool ip")
	}
	a, nsA := resident(t)
	b, nsB := resident(t)
	ip := func(ns netlink.Namespace, line string) {
		t.Helper()
		must(t, ns.In(func() error { // a process started on this thread is in its namespace
			if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
				return fmt.Errorf("ip %s: %w: %s", line, err, out)
			}
			return nil
		}))
	}
	ip(nsA, fmt.Sprintf("link add fl0 type veth peer name fl1 netns %d", b))
	ip(nsA, "addr add 10.99.0.1/24 dev fl0")
	ip(nsB, "addr add 10.99.0.2/24 dev fl1")
	ip(nsA, "link set fl0 up")
	ip(nsB, "link set fl1 up")

	env := collect.Env{Netns: "all"}
	r := openReadingsIn(t, &env, flows, "tcp.flow.bytes", "tcp.connections")
	defer r.r.Close()
	r.read()

	var listener int
	var bound unix.Sockaddr
	must(t, nsB.In(func() error { listener, bound = listen(t, tcp4(10, 99, 0, 2, 0)); return nil }))
	defer unix.Close(listener)
	client := -1
	must(t, nsA.In(func() (err error) {
		client, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	}))
	p := &pair{client: client, server: -1, listener: -1}
	defer p.close()
	must(t, unix.Connect(client, bound))
	var err error
	p.server, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
	must(t, err)
	until(
		t,
		"the owners are found, on a machine that may have processes with thousands of files",
		func() bool {
			send(t, p.client, p.server, 1) // owners are found when something moves
			send(t, p.server, p.client, 1)
			r.read()
			known := 0
			for _, sp := range r.r.(*flowReading).spaces.List {
				for i := range sp.Data.table.size {
					f := sp.Data.table.at(i)
					if (sp.Name == "pid:"+strconv.Itoa(a) || sp.Name == "pid:"+strconv.Itoa(b)) &&
						f.owner.who >= ownedBy {
						known++
					}
				}
			}
			return known == 2
		},
	)
	const down, up = 3_000_000, 4_321
	bytesBefore, packetsBefore := sentBy(t, b, "fl1")
	send(t, p.server, p.client, down)
	send(t, p.client, p.server, up)
	r.read()
	bytes, packets := sentBy(t, b, "fl1")
	bytes, packets = bytes-bytesBefore, packets-packetsBefore

	in := func(ns int) string { return "pid:" + strconv.Itoa(ns) }
	got := r.rows("tcp.flow.bytes", "netns", "local", "peer", "side", "direction")
	want := map[string]float64{
		in(a) + " 10.99.0.1 10.99.0.2 client tx": up, in(a) + " 10.99.0.1 10.99.0.2 client rx": down,
		in(b) + " 10.99.0.2 10.99.0.1 server tx": down, in(b) + " 10.99.0.2 10.99.0.1 server rx": up,
	}
	for key := range got { // other namespaces of the machine may have traffic
		if !strings.HasPrefix(key, in(a)+" ") && !strings.HasPrefix(key, in(b)+" ") {
			delete(got, key)
		}
	}
	equal(t, "between namespaces", got, want)
	owners := r.rows("tcp.flow.bytes", "netns", "process")
	for _, ns := range []string{in(a), in(b)} {
		if owners[ns+" "+processName(t)] != down+up {
			t.Errorf("owners: %v", owners)
		}
		if states := r.rows("tcp.connections", "netns", "state"); states[ns+" established"] != 1 {
			t.Errorf("states: %v", states)
		}
	}

	// Each frame has 66 bytes of headers (Ethernet 14, IPv4 20, TCP with time stamps 32). A frame
	// of segmentation offload has them once. There may be a few frames of neighbour discovery.
	if headers := bytes - down; packets == 0 || headers < 42*packets || headers > 100*packets {
		t.Errorf("device: %v bytes in %v packets for %v bytes of payload", bytes, packets, down)
	}
}

// sentBy returns what /proc/PID/net/dev reports as sent by a device.
func sentBy(t *testing.T, pid int, device string) (bytes, packets int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", pid))
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if name, counters, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == device {
			_, err := fmt.Sscan(strings.Join(strings.Fields(counters)[8:10], " "), &bytes, &packets)
			must(t, err)
			return bytes, packets
		}
	}
	t.Fatalf("no device %s in\n%s", device, text)
	return 0, 0
}

func openReadingsIn(
	t testing.TB, env *collect.Env, c collect.Collector, ids ...measure.StatID,
) *readings {
	t.Helper()
	want := collect.Want{}
	var stats []measure.Stat
	for _, s := range c.Stats() {
		for _, id := range ids {
			if id == s.ID {
				stats = append(stats, s)
				want[id] = map[string]bool{}
				for _, f := range s.Fields {
					want[id][f.Name] = true
				}
			}
		}
	}
	r, err := c.Open(env, want)
	must(t, err)
	words := collect.NewDictionary()
	return &readings{
		t:     t,
		r:     r,
		out:   collect.NewOut(stats, words, env.SinceBoot),
		words: words,
		first: true,
	}
}
