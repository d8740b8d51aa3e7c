package connection

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"culprit/collect"
	"culprit/kernel"
)

// procTree makes a directory that looks like /proc to owners.
type procTree struct {
	t    *testing.T
	root string
}

func newProcTree(t *testing.T) *procTree {
	p := &procTree{t, t.TempDir()}
	self := strconv.Itoa(os.Getpid())
	p.do(os.MkdirAll(filepath.Join(p.root, self, "ns"), 0o755))
	p.do(os.Symlink(initialPIDs, filepath.Join(p.root, self, "ns/pid")))
	p.do(os.MkdirAll(filepath.Join(p.root, self, "fd"), 0o755))
	return p
}

func (p *procTree) do(err error) {
	p.t.Helper()
	must(p.t, err)
}

// process makes a new process with sockets by file number.
func (p *procTree) process(pid int, name string, start int, sockets map[int]int) {
	p.t.Helper()
	dir := filepath.Join(p.root, strconv.Itoa(pid))
	p.do(os.RemoveAll(dir))
	p.do(os.MkdirAll(filepath.Join(dir, "fd"), 0o755))
	stat := fmt.Sprintf(
		"%d (%s) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0\n", pid, name, start,
	)
	p.do(os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644))
	p.do(os.Symlink("/dev/null", filepath.Join(dir, "fd/0")))
	for fd, inode := range sockets {
		p.do(
			os.Symlink(
				fmt.Sprintf("socket:[%d]", inode), filepath.Join(dir, "fd", strconv.Itoa(fd)),
			),
		)
	}
}

func (p *procTree) end(pid int) {
	p.t.Helper()
	p.do(os.RemoveAll(filepath.Join(p.root, strconv.Itoa(pid))))
}

// ownerCase runs owners over sockets by inode.
type ownerCase struct {
	t       *testing.T
	o       *owners
	tick    uint32
	epoch   int
	sockets map[uint32]*ownership
}

func newOwnerCase(t *testing.T, p *procTree) *ownerCase {
	o, err := openOwners(kernel.Root{Proc: p.root})
	must(t, err)
	t.Cleanup(o.close)
	return &ownerCase{t: t, o: o, sockets: map[uint32]*ownership{}}
}

// look makes ticks in which the sockets with these inodes move data.
func (c *ownerCase) look(ticks int, inodes ...uint32) {
	c.t.Helper()
	for range ticks {
		c.tick++
		c.o.start(c.tick, c.tick == 1)
		var asked []*ownership
		var wanted []uint32
		for _, inode := range inodes {
			s := c.sockets[inode]
			if s == nil {
				s = &ownership{}
				c.sockets[inode] = s
			}
			if c.o.due(s, inode) {
				asked, wanted = append(asked, s), append(wanted, inode)
			}
		}
		must(c.t, c.o.resolve(asked, wanted, func(f func(*ownership)) {
			for _, s := range c.sockets {
				f(s)
			}
		}))
		c.o.forget(func(old func(int32) bool) {
			for _, s := range c.sockets {
				if old(s.who) {
					*s = ownership{}
				}
			}
		})
	}
}

func (c *ownerCase) want(inode uint32, owner string) {
	c.t.Helper()
	words := collect.NewDictionary()
	out := collect.NewOut(nil, words, false)
	out.Start(false, time.Now())
	c.epoch++ // no labels of an earlier dictionary
	out.Epoch = c.epoch
	l := c.o.labels(out, c.sockets[inode])
	if got := words.Word(l[0]) + " " + words.Word(l[1]); got != owner {
		c.t.Errorf("tick %d: socket %d belongs to %q, want %q", c.tick, inode, got, owner)
	}
}

func TestOwners(t *testing.T) {
	p := newProcTree(t)
	p.process(100, "nginx", 1, map[int]int{3: 10})
	p.process(101, "nginx", 2, map[int]int{3: 10, 5: 20})
	p.process(300, "x) S (y", 3, map[int]int{9: 30})
	c := newOwnerCase(t, p)
	c.look(1, 20, 10, 30, 40)
	c.want(10, "100 nginx") // the parent, of two that share it
	c.want(20, "101 nginx")
	c.want(30, "300 x) S (y")
	c.want(40, " ")
	c.look(2, 40)
	c.want(40, " [kernel]") // not found, twice

	// A new socket of a known process is found among the free file numbers.
	p.process(101, "nginx", 2, map[int]int{3: 10, 5: 20, 4: 21})
	c.look(1, 21)
	c.want(21, "101 nginx")
	if used := ownerFiles - c.o.budget; used > 3*(ownerBeyond+8) {
		t.Errorf("%d files looked at for one new socket", used)
	}

	// A process that renames itself; one that ends while another has the socket; a reused pid.
	p.process(100, "nginx: master", 1, map[int]int{3: 10})
	p.end(101)
	p.process(102, "worker", 9, map[int]int{5: 20, 4: 21})
	c.look(ownerCheck+1, 10, 20, 21)
	c.want(10, "100 nginx: master")
	c.want(20, "102 worker")
	c.want(21, "102 worker")
	p.process(300, "cron", 77, map[int]int{4: 31})
	c.look(ownerCheck+1, 30, 31)
	c.want(31, "300 cron")

	// A socket that its process passes on while it lives, noticed after a while.
	p.process(100, "nginx: master", 1, nil)
	p.process(103, "heir", 10, map[int]int{7: 10})
	c.look(ownerRecheck+1, 10)
	c.want(10, "103 heir")

	// A process that ended long ago is dropped and its index reused.
	p.end(102)
	p.end(103)
	c.look(2*ownerKeep+2*ownerCheck, 31)
	if n := len(c.o.byPID); n != 2 { // 100 and 300
		t.Errorf("%d processes known, want 2: %v", n, c.o.byPID)
	}
	if s := c.sockets[20]; s.who != ownerUnasked {
		t.Errorf("a socket of a process long gone: %+v", s)
	}
}

// TestOwnersBudget has more files than a tick may read. The searched sockets are at their end, or
// nowhere.
func TestOwnersBudget(t *testing.T) {
	p := newProcTree(t)
	many := map[int]int{}
	for fd := 3; fd < 1200; fd++ {
		many[fd] = 100_000 + fd
	}
	p.process(50, "big", 1, many)
	p.process(60, "small", 2, map[int]int{3: 7})
	c := newOwnerCase(t, p)
	c.tick, c.o.budget = 1, 0
	c.look(1, 7, 8, 101_199)
	c.want(7, "60 small")
	c.want(101_199, "50 big")
	c.want(8, " ")
	if c.sockets[8].tries != 1 {
		t.Errorf("what is nowhere: %+v", c.sockets[8])
	}
	// With a small budget a round continues over several ticks, and ends.
	c.sockets = map[uint32]*ownership{}
	for n := 0; c.sockets[9] == nil || c.sockets[9].tries == 0; n++ {
		if n > 20 {
			t.Fatalf("the round never ends: %+v", c.sockets[9])
		}
		c.tick++
		c.o.start(c.tick, false)
		c.o.budget = 300
		if n == 0 {
			c.sockets[9] = &ownership{}
		}
		if c.o.due(c.sockets[9], 9) {
			must(t, c.o.resolve([]*ownership{c.sockets[9]}, []uint32{9}, func(func(*ownership)) {}))
		}
	}
}

// TestOwnersDebt: what a tick reads beyond its budget is missing from the next ticks.
func TestOwnersDebt(t *testing.T) {
	p := newProcTree(t)
	p.process(50, "server", 1, map[int]int{3: 7})
	c := newOwnerCase(t, p)
	c.tick, c.o.budget = 1, -2*ownerFiles
	c.look(1, 7)
	c.want(7, " ")
	c.look(1, 7)
	c.want(7, " ")
	c.look(1, 7)
	c.want(7, "50 server")
	c.look(1)
	if c.o.budget != ownerFiles {
		t.Errorf("a tick after one that read little has a budget of %d, want %d", c.o.budget,
			ownerFiles)
	}
}

// count replaces the kernel's number of open files.
func (p *procTree) count(pid int32) (int, error) {
	files, err := os.ReadDir(filepath.Join(p.root, strconv.Itoa(int(pid)), "fd"))
	return len(files), err
}

// TestOwnersPassOver checks that processes with an unchanged number of open files are skipped, and
// that what they have is found a tick later.
func TestOwnersPassOver(t *testing.T) {
	p := newProcTree(t)
	idle := map[int]int{}
	for fd := 3; fd < 23; fd++ {
		idle[fd] = 5000 + fd
	}
	for pid := 1000; pid < 1050; pid++ {
		p.process(pid, "idle", 1, idle)
	}
	p.process(100, "server", 1, map[int]int{3: 10, 4: 11})
	c := newOwnerCase(t, p)
	c.o.count = p.count
	used := func(most int) {
		t.Helper()
		if used := ownerFiles - c.o.budget; used > most {
			t.Errorf("tick %d: %d files looked at, want %d at most", c.tick, used, most)
		}
	}
	c.look(1, 10, 11)
	c.look(1, 40) // none has it: all are read, because some were not read completely
	c.look(1, 40)

	// A new client: no other process is read.
	p.process(30, "curl", 1, map[int]int{3: 20})
	c.look(1, 10, 11, 20)
	c.want(20, "30 curl")
	used(1 + 1 + 8) // the server, curl

	// One more at the server while another is closed: the number of files is unchanged, that of
	// known sockets is not.
	delete(c.sockets, 11)
	p.process(100, "server", 1, map[int]int{3: 10, 5: 12})
	c.look(1, 10, 12)
	c.want(12, "100 server")
	used(10)

	// One of an old process that had none.
	idle[23] = 30
	p.process(1030, "idle", 1, idle)
	c.look(1, 10, 12, 30)
	c.want(30, "1030 idle")
	used(100)

	// One that replaced another file: not at once, but a tick later.
	idle[4] = 31
	p.process(1031, "idle", 1, idle)
	delete(idle, 23)
	p.process(1031, "idle", 1, idle)
	c.look(1, 10, 31)
	used(100)
	c.want(31, " ")
	c.look(1, 10, 31)
	c.want(31, "1031 idle")

	// One that none has is the kernel's only after all processes were read twice.
	c.look(1, 41)
	c.want(41, " ")
	c.look(1, 41)
	c.want(41, " ")
	c.look(2, 41)
	c.want(41, " [kernel]")
}

// TestOwnersForgetWhatEnded: what was read of processes that have ended is dropped once there are
// more of them than of others.
func TestOwnersForgetWhatEnded(t *testing.T) {
	p := newProcTree(t)
	for pid := 1000; pid < 1030; pid++ {
		p.process(pid, "idle", 1, map[int]int{3: 5000 + pid})
	}
	p.process(100, "server", 1, map[int]int{3: 10})
	c := newOwnerCase(t, p)
	c.o.count = p.count
	c.look(1, 10, 40) // none has 40: all are read
	if n := len(c.o.looked); n < 31 {
		t.Fatalf("%d processes were read, want 31", n)
	}
	for pid := 1005; pid < 1030; pid++ {
		p.end(pid)
	}
	c.look(4, 41)
	for pid := int32(1005); pid < 1030; pid++ {
		if _, has := c.o.looked[pid]; has {
			t.Errorf("process %d, which has ended, is still known", pid)
		}
	}
	if _, has := c.o.looked[1000]; !has {
		t.Error("process 1000, which lives, is no longer known")
	}
}
