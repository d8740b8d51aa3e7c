package collect

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"culprit/kernel"
	"culprit/kernel/netlink"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// MaxNamespaces is how many network namespaces are read with "all". Each needs two or three sockets
// and ten open files.
const MaxNamespaces = 64

// Namespaces finds the network namespaces that Env.Netns means. All collectors of a Source share
// it, since to look at every process is too expensive for each collector and each second. It may be
// used by several goroutines.
type Namespaces struct {
	mu         sync.Mutex
	list       []netlink.Namespace
	note       string
	generation int
	checked    time.Time // when the listed namespaces were last seen to exist
	next       time.Time // when to list again at the latest
	folder     unix.Timespec

	shown   []netlink.ProcessNet // one process of each namespace, from Report
	shownAt time.Time            // when Report was called
}

const (
	// below any interval in use, so that all collectors check once for each tick
	checkSpaces = 300 * time.Millisecond
	// ListEvery is how soon a namespace without a name is found.
	ListEvery  = 5 * time.Second
	trustShown = 2 * time.Second // how long the processes of Report are used
)

// Report passes on one process of each namespace that has processes. The caller has looked at all
// processes. Report copies first.
func (n *Namespaces) Report(first []netlink.ProcessNet) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shownAt = time.Now()
	if !slices.EqualFunc(
		n.shown, first,
		func(a, b netlink.ProcessNet) bool { return a.PID == b.PID && a.Net == b.Net },
	) {
		n.shown = append(n.shown[:0], first...)
		n.next = time.Time{} // list at once
	}
}

// now returns the namespaces that exist now, a note if some may be missing, and a generation that
// changes with the list. The caller must not change the list. An error means that a namespace that
// was named does not exist.
func (n *Namespaces) now(
	env *Env,
) (list []netlink.Namespace, note string, generation int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if env.Netns == "" {
		if n.list == nil {
			n.list, n.generation = []netlink.Namespace{netlink.OwnNamespace(env.Root)}, 1
		}
		return n.list, "", n.generation, nil
	}
	now := time.Now()
	switch {
	case !n.checked.IsZero() && now.Sub(n.checked) < checkSpaces:
	case env.Netns != "all":
		n.checked = now
		ns, err := netlink.FindNamespace(env.Root, env.Netns)
		if err != nil {
			n.list, n.checked = nil, time.Time{}
			n.generation++
			return nil, "", n.generation, err
		}
		if len(n.list) != 1 || n.list[0] != ns {
			n.list = []netlink.Namespace{ns}
			n.generation++
		}
	default:
		n.checked = now
		if now.Before(n.next) && !n.moved(env) {
			break
		}
		first := n.shown
		if now.Sub(n.shownAt) > trustShown {
			first = nil
		}
		list, err := netlink.NamespacesOf(env.Root, first, MaxNamespaces)
		n.note = ""
		if err != nil {
			n.note = err.Error()
		}
		// To look at thousands of processes takes milliseconds. This spends at most 0.1 % of a CPU.
		n.next = now.Add(max(ListEvery, 1000*time.Since(now)))
		if !slices.Equal(list, n.list) {
			n.list = list
			n.generation++
		}
	}
	return n.list, n.note, n.generation, nil
}

// moved reports whether a known namespace has gone, or the directory of named ones has changed.
func (n *Namespaces) moved(env *Env) bool {
	var st unix.Stat_t
	if unix.Stat("/run/netns", &st) == nil && st.Mtim != n.folder {
		n.folder = st.Mtim
		return true
	}
	for i := range n.list {
		if ns := &n.list[i]; !ns.Own() {
			if found, err := netlink.FindNamespace(env.Root, ns.Name); err != nil ||
				found.Inode != ns.Inode {
				return true
			}
		}
	}
	return false
}

// PerNamespace keeps a T for each network namespace of Env.Netns: opened when the namespace
// appears, closed when it goes. The files and sockets of a T keep its namespace alive, so a T is
// closed as soon as its namespace has neither a name nor processes.
type PerNamespace[T any] struct {
	Env *Env
	// called inside the namespace; must not start goroutines
	Open       func(*Namespace[T]) (T, error)
	Close      func(T)
	List       []*Namespace[T]
	all        []*Namespace[T] // also those that could not be opened
	Generation int
	Matches    int // how often List was made
	found      *Namespaces
}

// Namespace is one network namespace with its data.
type Namespace[T any] struct {
	NetNS  netlink.Namespace
	Root   kernel.Root
	Name   string // "" is the tool's own
	Data   T
	failed string // why Open failed; Data is then zero
	epoch  int
	word   measure.Label
	said   bool
}

// Start finds the namespaces for the first time. An error means that none can be read.
func (s *PerNamespace[T]) Start() error {
	s.found = s.Env.Namespaces
	if s.found == nil {
		s.found = &Namespaces{}
	}
	list, _, generation, err := s.found.now(s.Env)
	if err != nil {
		return err
	}
	s.match(list, generation)
	switch {
	case len(s.List) > 0:
		return nil
	case len(s.all) > 0:
		return errors.New(s.all[0].failed)
	}
	return fmt.Errorf("network namespace %q: %w", s.Env.Netns, fs.ErrNotExist)
}

// Follow returns the namespaces that exist now and can be read. It notes the others.
func (s *PerNamespace[T]) Follow(o *Out) []*Namespace[T] {
	list, note, generation, err := s.found.now(s.Env)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		o.NoteAll("network namespace " + s.Env.Netns + " is not there")
	case err != nil:
		o.NoteAll(err.Error())
	}
	if generation != s.Generation {
		s.match(list, generation)
	}
	if note != "" {
		o.NoteAll(note)
	}
	for _, sp := range s.all {
		if sp.failed != "" {
			o.NoteAll(sp.failed)
		}
	}
	return s.List
}

// match opens the new namespaces of list and closes those that are not in it.
func (s *PerNamespace[T]) match(list []netlink.Namespace, generation int) {
	s.Generation = generation
	s.Matches++
	before := s.all
	s.all, s.List = nil, nil
	for _, ns := range list {
		var sp *Namespace[T]
		for i, old := range before {
			if old != nil && old.NetNS.Inode == ns.Inode {
				sp, before[i] = old, nil
				break
			}
		}
		if sp == nil {
			sp = &Namespace[T]{NetNS: ns, Root: s.Env.Root, Name: ns.Name}
			err := ns.In(func() (err error) {
				sp.Data, err = s.Open(sp)
				return err
			})
			switch {
			case errors.Is(err, fs.ErrNotExist) && !ns.Own(): // it went meanwhile
				s.Generation--
				continue
			case err != nil:
				sp.failed = "network namespace" + strings.TrimPrefix(
					sp.Of(), " of namespace",
				) + ": " + err.Error()
			}
		}
		if sp.Name != ns.Name {
			sp.Name, sp.said = ns.Name, false
		}
		sp.NetNS = ns
		s.all = append(s.all, sp)
		if sp.failed == "" {
			s.List = append(s.List, sp)
		}
	}
	for _, old := range before {
		if old != nil && old.failed == "" {
			s.Close(old.Data)
		}
	}
}

// Shut closes the data of all namespaces.
func (s *PerNamespace[T]) Shut() {
	for _, sp := range s.List {
		s.Close(sp.Data)
	}
	s.List, s.all = nil, nil
}

// Own reports whether this is the tool's own namespace. Numbers that the kernel keeps for the whole
// machine are emitted with it.
func (s *Namespace[T]) Own() bool { return s.NetNS.Own() }

// OpenProc opens a file below /proc as this namespace sees it: net/snmp,
// sys/net/ipv4/tcp_ehash_entries. Call it only inside PerNamespace.Open. An error means that the
// file cannot be opened; errors.Is fs.ErrNotExist: this kernel does not have it. The caller closes
// the file.
func (s *Namespace[T]) OpenProc(name string) (*proc.File, error) {
	if net, ok := strings.CutPrefix(name, "net/"); ok && s.Own() {
		return netlink.OpenNet(s.Root, s.NetNS, net)
	} else if ok {
		return proc.Open("/proc/thread-self/net/" + net)
	}
	// The content of /proc/sys/net depends on the thread that opens the file (net_ctl_header_lookup
	// in net/sysctl_net.c).
	return proc.OpenProc(s.Root, name)
}

// Label returns the label of the namespace's name.
func (s *Namespace[T]) Label(o *Out) measure.Label {
	if !s.said || s.epoch != o.Epoch {
		s.word, s.epoch, s.said = o.Label(s.Name), o.Epoch, true
	}
	return s.word
}

// Of returns " of namespace NAME", or "" for the tool's own.
func (s *Namespace[T]) Of() string {
	if s.Name == "" {
		return ""
	}
	return " of namespace " + strconv.Quote(s.Name)
}

// CheckNetns checks that name, a value of Env.Netns, names network namespaces that can be read. It
// returns a *measure.Diagnostic on "--netns NAME" with the nearest name if there is none of that
// name, and measure.ErrDenied if this user may not enter it.
func CheckNetns(name string) error {
	if name == "" || name == "all" {
		return nil
	}
	root := kernel.Root{}
	_, err := netlink.FindNamespace(root, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := "--netns " + name
	d := &measure.Diagnostic{
		Text:    text,
		Pos:     len("--netns "),
		Len:     len(name),
		Code:    "unknown-netns",
		Message: "there is no network namespace " + name,
		Hint:    "`ip netns` lists the named ones; \"all\" means every namespace",
	}
	var names []string
	// An error says what is missing from the list; the rest is good.
	all, _ := netlink.Namespaces(root, 0)
	for _, ns := range all {
		if ns.Name != "" {
			names = append(names, ns.Name)
		}
	}
	if near := measure.Nearest(name, names); near != "" {
		d.Hint = "did you mean " + near + "?"
	}
	return d
}
