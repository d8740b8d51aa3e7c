package cases

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Host is a network namespace that represents a machine: it has interfaces, addresses and settings
// of its own, but shares CPUs, disks and memory with all others.
type Host struct {
	lab  *Lab
	Name string // as stories call it: "box"
	NS   string // the namespace's name, for `ip netns exec`: culab1234-box
}

// Host makes a host with its loopback up and IPv6 off, so that no frames flow that the scene didn't
// ask for.
func (l *Lab) Host(name string) *Host {
	h := &Host{lab: l, Name: name, NS: l.run + "-" + name}
	l.tool("ip", "netns", "add", h.NS)
	return h.start()
}

// HostWithin makes a host whose per-namespace defaults come from parent: a new namespace takes the
// size of its TCP tables from net.ipv4.tcp_child_ehash_entries of the namespace it is made in
// (net/ipv4/inet_hashtables.c).
func (l *Lab) HostWithin(parent *Host, name string) *Host {
	h := &Host{lab: l, Name: name, NS: l.run + "-" + name}
	if l.err != nil {
		return h
	}
	// Not `ip netns exec`: that hides the new name in a mount namespace of its own.
	l.fail(inside(parent.NS, func() error {
		if out, err := exec.Command("ip", "netns", "add", h.NS).CombinedOutput(); err != nil {
			return fmt.Errorf("make namespace %s: %w: %s", h.NS, err, out)
		}
		return nil
	}))
	return h.start()
}

func (h *Host) start() *Host {
	h.lab.hosts = append(h.lab.hosts, h)
	h.Set("net/ipv6/conf/all/disable_ipv6", "1")
	h.Set("net/ipv6/conf/default/disable_ipv6", "1")
	h.ip("link", "set", "lo", "up")
	return h
}

// Set writes a sysctl of the host, by its path below /proc/sys.
func (h *Host) Set(path, value string) {
	if h.lab.err != nil {
		return
	}
	h.lab.fail(
		inside(h.NS, func() error { // /proc/sys/net shows the namespace of the thread that looks
			err := os.WriteFile(filepath.Join("/proc/sys", path), []byte(value), 0)
			if err != nil && !strings.Contains(path, "ipv6") {
				return fmt.Errorf("set %s in %s: %w", path, h.Name, err)
			}
			return nil
		}),
	)
}

// Get reads a sysctl of the host; "" when it isn't there.
func (h *Host) Get(path string) string {
	var b []byte
	if err := inside(h.NS, func() (err error) {
		b, err = os.ReadFile(filepath.Join("/proc/sys", path))
		return err
	}); err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Command prepares a program to run on the host, with the host's own /sys. As a process of the run
// it ends with it.
func (h *Host) Command(name string, args ...string) *exec.Cmd {
	c := exec.Command("ip", append([]string{"netns", "exec", h.NS, name}, args...)...)
	c.Env = h.lab.environ("", nil)
	return c
}

func (h *Host) ip(args ...string) { h.lab.tool("ip", append([]string{"-n", h.NS}, args...)...) }
func (h *Host) tc(args ...string) { h.lab.tool("tc", append([]string{"-n", h.NS}, args...)...) }

func (h *Host) bridge(
	args ...string,
) {
	h.lab.tool("bridge", append([]string{"-n", h.NS}, args...)...)
}
func (h *Host) ethtool(args ...string) {
	h.lab.tool("ip", append([]string{"netns", "exec", h.NS, "ethtool"}, args...)...)
}

// Veth joins two hosts by a pair of interfaces, both up, without addresses. A veth says 10,000
// Mbit/s whatever it is.
func (l *Lab) Veth(a *Host, devA string, b *Host, devB string) {
	l.tool(
		"ip", "link", "add", devA, "netns", a.NS, "type", "veth", "peer", "name", devB, "netns",
		b.NS,
	)
	a.Up(devA)
	b.Up(devB)
}

// Up sets interfaces up.
func (h *Host) Up(devs ...string) {
	for _, d := range devs {
		h.ip("link", "set", d, "up")
	}
}

// Address adds an address to an interface, like "10.1.0.2/24".
func (h *Host) Address(dev, cidr string) { h.ip("addr", "add", cidr, "dev", dev) }

// MAC sets an interface's hardware address.
func (h *Host) MAC(dev, mac string) { h.ip("link", "set", dev, "address", mac) }

// OneFrameAPacket turns the offloads off, so that what is counted as a packet is a frame of at most
// the MTU, as on a wire.
func (h *Host) OneFrameAPacket(devs ...string) {
	for _, d := range devs {
		// tx checksumming must go first: segmentation offload depends on it
		h.ethtool("-K", d, "tso", "off", "gso", "off", "gro", "off", "tx", "off", "rx", "off")
	}
}

// Shape limits what leaves an interface to mbit megabits a second by a token bucket of burst bytes;
// queue is how many bytes may wait.
func (h *Host) Shape(dev string, mbit, burst, queue int) {
	h.tc(
		"qdisc", "add", "dev", dev, "root", "tbf", "rate", fmt.Sprintf("%dmbit", mbit), "burst",
		fmt.Sprint(burst), "limit", fmt.Sprint(queue),
	)
}

// Bridge makes a bridge of interfaces of the host. As a hub it learns nothing and sends every frame
// to every port.
func (h *Host) Bridge(name string, hub bool, ports ...string) {
	ageing := "30000"
	if hub {
		ageing = "0"
	}
	h.ip("link", "add", name, "type", "bridge", "ageing_time", ageing, "mcast_snooping", "0")
	h.Up(name)
	for _, p := range ports {
		h.ip("link", "set", p, "master", name)
		if hub {
			h.bridge("link", "set", "dev", p, "learning", "off", "flood", "on")
		}
	}
}

// ReceiveOn makes one CPU receive what comes in on an interface, as the one receive vector of a
// simple card would.
func (h *Host) ReceiveOn(dev string, cpu int) {
	h.lab.tool("ip", "netns", "exec", h.NS, "sh", "-c",
		fmt.Sprintf("echo %x > /sys/class/net/%s/queues/rx-0/rps_cpus", uint64(1)<<cpu, dev))
}

// Cgroup is a control group of the run, in the version 1 hierarchy of its controller or in the
// version 2 tree.
type Cgroup struct {
	lab  *Lab
	Path string // the folder
	Name string // as a program below the hierarchy's root sees it: "/culab1234-app"
	V2   bool
}

func (g *Cgroup) procs() string { return filepath.Join(g.Path, "cgroup.procs") }

// HasController says whether a cgroup with this controller ("cpu", "memory") can be made here.
func HasController(name string) bool {
	_, _, err := hierarchy(name)
	return err == nil
}

// Cgroup makes a control group below the root of the controller's hierarchy.
func (l *Lab) Cgroup(controller, name string) *Cgroup {
	g := &Cgroup{lab: l, Name: "/" + l.run + "-" + name}
	if l.err != nil {
		return g
	}
	root, v2, err := hierarchy(controller)
	if err != nil {
		l.fail(err)
		return g
	}
	g.Path, g.V2 = root+g.Name, v2
	g.make(root, controller)
	return g
}

// make makes the group below parent, where version 2 has to enable the controller: on most machines
// it is, because systemd does it for its slices.
func (g *Cgroup) make(parent, controller string) {
	if g.V2 {
		g.lab.fail(enableController(parent, controller))
	}
	if err := os.Mkdir(g.Path, 0o755); err != nil {
		g.lab.fail(fmt.Errorf("make cgroup: %w", err))
	}
}

// Child makes a group below this one.
func (g *Cgroup) Child(controller, name string) *Cgroup {
	c := &Cgroup{lab: g.lab, V2: g.V2, Name: g.Name + "/" + name,
		Path: filepath.Join(g.Path, name)}
	if g.lab.err != nil {
		return c
	}
	c.make(g.Path, controller)
	return c
}

// Set writes one of the group's files.
func (g *Cgroup) Set(file, value string) {
	if g.lab.err != nil {
		return
	}
	if err := os.WriteFile(filepath.Join(g.Path, file), []byte(value), 0); err != nil {
		g.lab.fail(fmt.Errorf("set %s: %w", file, err))
	}
}

// LimitCPU lets the group use cpus CPUs' worth of time in each tenth of a second.
func (g *Cgroup) LimitCPU(cpus float64) {
	quota := fmt.Sprint(int(cpus * 100000))
	if g.V2 {
		g.Set("cpu.max", quota+" 100000")
		return
	}
	g.Set("cpu.cfs_period_us", "100000")
	g.Set("cpu.cfs_quota_us", quota)
}

// Weigh sets the weight of the group among its siblings, on the scale of version 2: 100 is usual.
func (g *Cgroup) Weigh(weight int) {
	if g.V2 {
		g.Set("cpu.weight", fmt.Sprint(weight))
		return
	}
	g.Set("cpu.shares", fmt.Sprint(weight*1024/100))
}

// LimitMemory lets the group hold bytes of memory, caches included, and no swap where that can be
// said.
func (g *Cgroup) LimitMemory(bytes int64) {
	if g.V2 {
		g.Set("memory.max", fmt.Sprint(bytes))
		return
	}
	g.Set("memory.limit_in_bytes", fmt.Sprint(bytes))
}

func enableController(root, name string) error {
	have, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	for _, c := range strings.Fields(string(have)) {
		if c == name {
			return nil
		}
	}
	control := filepath.Join(root, "cgroup.subtree_control")
	if err := os.WriteFile(control, []byte("+"+name), 0); err != nil {
		return fmt.Errorf("enable the cgroup controller %s: %w", name, err)
	}
	return nil
}

// hierarchy finds where groups of a controller are made: version 1 when it is mounted there, else
// version 2.
func hierarchy(controller string) (root string, v2 bool, err error) {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", false, err
	}
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		switch f[2] {
		case "cgroup":
			for _, o := range strings.Split(f[3], ",") {
				if o == controller {
					return f[1], false, nil
				}
			}
		case "cgroup2":
			have, _ := os.ReadFile(filepath.Join(f[1], "cgroup.controllers"))
			for _, c := range strings.Fields(string(have)) {
				if c == controller {
					root, v2 = f[1], true
				}
			}
		}
	}
	if root == "" {
		return "", false, fmt.Errorf("no cgroup hierarchy has the controller %s", controller)
	}
	return root, v2, nil
}

// cgroupRoots lists the mounted hierarchies.
func cgroupRoots() []string {
	b, _ := os.ReadFile("/proc/self/mounts")
	var roots []string
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Fields(line); len(f) > 2 && strings.HasPrefix(f[2], "cgroup") {
			roots = append(roots, f[1])
		}
	}
	return roots
}

// beforehand runs f, which starts a process, on a thread that has what the program asks for, so
// that the process has it from its first instruction: its CPUs and its priority. What sends,
// carries and serves goes before what else the machine does, or a scene would show how busy the
// machine is; a cable before everything, for a wire waits for nobody. A plain program is like any
// other. Where a priority isn't allowed the scene is less steady.
func (p Program) beforehand(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // thrown away, binding and all
		if len(p.CPUs) > 0 {
			var set unix.CPUSet
			for _, c := range p.CPUs {
				set.Set(c)
			}
			if err := unix.SchedSetaffinity(0, &set); err != nil {
				done <- fmt.Errorf("bind to CPUs %v: %w", p.CPUs, err)
				return
			}
		}
		switch {
		case p.FIFO > 0:
			if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr,
				Policy: unix.SCHED_FIFO, Priority: uint32(p.FIFO)}, 0); err != nil {
				done <- fmt.Errorf("set policy FIFO: %w", err)
				return
			}
		case p.Plain:
		case p.Act == "cable":
			unix.SchedSetAttr(
				0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1},
				0,
			)
		default:
			unix.Setpriority(unix.PRIO_PROCESS, 0, -15) // of this thread only
		}
		done <- f()
	}()
	return <-done
}
