package command

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// An opened is a file that a thread opened, with what /proc says about it.
type opened struct {
	what  string
	path  string // as /proc/PID/fd shows it to the thread
	gone  bool   // it has no name any more
	mount string // by /proc/PID/mountinfo; "": there is no such file
	fs    string // "": not compared
}

// A pathThread opens files on a thread of its own, in namespaces of its own, and names each to the
// program by a call of lseek with its number.
type pathThread struct {
	t     *testing.T
	dir   string
	proc  int // /proc/thread-self/fd
	files []opened
}

// onPathThread runs a function on such a thread, which ends with it.
func onPathThread(t *testing.T, do func(p *pathThread)) []opened {
	t.Helper()
	p := &pathThread{t: t, dir: filepath.Join(t.TempDir(), "files")}
	done := make(chan struct{})
	var run func()
	run = func() {
		runtime.LockOSThread() // and never unlocked, so that the thread ends
		if unix.Gettid() == os.Getpid() {
			go run() // on another: /proc/self is the first thread's, which must keep its root
			<-done
			runtime.UnlockOSThread()
			return
		}
		defer close(done)
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			t.Errorf("unshare: %v", err)
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Errorf("private mounts: %v", err)
			return
		}
		var err error
		if p.proc, err = unix.Open("/proc/thread-self/fd", unix.O_DIRECTORY, 0); err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(p.proc)
		p.mkdir("")
		do(p)
	}
	go run()
	<-done
	return p.files
}

func (p *pathThread) must(what string, err error) {
	if err != nil {
		p.t.Errorf("%s: %v", what, err)
	}
}

// at returns a path below the thread's directory.
func (p *pathThread) at(name string) string { return filepath.Join(p.dir, name) }

func (p *pathThread) mkdir(name string) string {
	p.must("mkdir", os.MkdirAll(p.at(name), 0o700))
	return p.at(name)
}

// create creates and opens a file.
func (p *pathThread) create(name string) int {
	fd, err := unix.Open(p.at(name), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	p.must("create "+name, err)
	return fd
}

func (p *pathThread) open(name string) int {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	p.must("open "+name, err)
	return fd
}

func (p *pathThread) mount(source, target, fs string, flags uintptr, data string) {
	p.must("mount "+fs+" "+target, unix.Mount(source, target, fs, flags, data))
}

// show names a file to the program, and keeps what /proc says about it.
func (p *pathThread) show(what string, fd int, fs string) {
	if fd < 0 {
		return
	}
	buf := make([]byte, 3*unix.PathMax)
	n, err := unix.Readlinkat(p.proc, strconv.Itoa(fd), buf)
	if err != nil {
		p.t.Errorf("%s: readlink: %v", what, err)
		return
	}
	var stat unix.Stat_t
	p.must("fstat", unix.Fstat(fd, &stat))
	p.files = append(p.files, opened{
		what: what, path: string(buf[:n]), gone: stat.Nlink == 0, mount: p.mountOf(fd), fs: fs,
	})
	unix.Seek(fd, int64(len(p.files)), 99) //nolint:errcheck // it fails; it is traced
}

// read reads a file of /proc/thread-self, also where the thread's root has none.
func (p *pathThread) read(name string) string {
	fd, err := unix.Openat(p.proc, name, unix.O_RDONLY, 0)
	if err != nil {
		return ""
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var b bytes.Buffer
	b.ReadFrom(f) //nolint:errcheck // what is missing is compared
	return b.String()
}

// mountOf returns where the mount of a file is, "" if it is not mounted.
func (p *pathThread) mountOf(fd int) string {
	_, id, _ := strings.Cut(p.read("../fdinfo/"+strconv.Itoa(fd)), "mnt_id:")
	id = strings.TrimSpace(strings.SplitN(id+"\n", "\n", 2)[0])
	for line := range strings.Lines(p.read("../mountinfo")) {
		if f := strings.Fields(line); len(f) > 4 && f[0] == id {
			return f[4]
		}
	}
	return ""
}

// pathProgram prints the parts of the names of files by their number.
const pathProgram = `syscall::lseek:entry /pid == $pid && arg2 == 99/ {
	printf("%d|%s|%s|%s|%s|%s|%s\n", arg1, fds[arg0].fi_pathname, fds[arg0].fi_name, fds[arg0].fi_dirname,
		fds[arg0].fi_mount, fds[arg0].fi_fs, d_path(&curthread->files->fdt->fd[arg0]->f_path)); }`

// pathParts runs the program while files are opened, and returns the files with their parts.
func pathParts(t *testing.T, strsize int, do func(*pathThread)) (files []opened, parts [][]string) {
	t.Helper()
	r := Request{
		Parts:   []Part{{'n', pathProgram}},
		Options: []string{"quiet", "strsize=" + strconv.Itoa(strsize)},
	}
	_, out, errs := traced(t, r, func() { files = onPathThread(t, do) })
	if errs != "" {
		t.Error(errs)
	}
	parts = make([][]string, len(files))
	for line := range strings.Lines(out) {
		if line == "\n" { // the program's end
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		if n, err := strconv.Atoi(f[0]); err == nil && n > 0 && n <= len(files) && len(f) == 7 {
			parts[n-1] = f[1:]
		} else {
			t.Errorf("line %q", line)
		}
	}
	return files, parts
}

// shortened returns a path as d_path returns it in strings of a length.
func shortened(name string, most int) string {
	if len(name) <= most {
		return name
	}
	const dots = "..."
	for i := range len(name) {
		if name[i] == '/' && len(dots)+len(name)-i <= most {
			return dots + name[i:]
		}
	}
	last := path.Base(name)
	return dots + last[len(last)-min(len(last), most-len(dots)):]
}

// comparePaths compares the parts with what /proc says.
func comparePaths(t *testing.T, strsize int, files []opened, parts [][]string) {
	t.Helper()
	for i, f := range files {
		if parts[i] == nil {
			t.Errorf("%s: no line", f.what)
			continue
		}
		plain := f.path
		if f.gone {
			plain = strings.TrimSuffix(plain, " (deleted)")
		}
		name, dir := path.Base(plain), path.Dir(plain)
		if !strings.HasPrefix(f.path, "/") {
			name, dir = f.path, "<none>"
		}
		if f.fs == "tmpfs anonymous" {
			name, dir = plain[1:], "<none>"
		}
		want := []string{
			shortened(f.path, strsize-1), shortened(name, strsize-1), shortened(dir, strsize-1),
			shortened(cmp.Or(f.mount, "<none>"), strsize-1), f.fs, shortened(f.path, strsize-1),
		}
		for k, column := range [...]string{
			"fi_pathname", "fi_name", "fi_dirname", "fi_mount", "fi_fs", "d_path",
		} {
			got := parts[i][k]
			if column == "fi_fs" && (f.fs == "" || strings.HasPrefix(f.fs, got+" ")) {
				continue
			}
			if column == "fi_mount" && f.mount == "?" {
				continue
			}
			if got != measure.Escape(want[k]) {
				t.Errorf("%s: %s is %q, want %q", f.what, column, got, measure.Escape(want[k]))
			}
		}
	}
}

// plainFiles opens files of all kinds that need no mounts.
func plainFiles(p *pathThread) {
	p.show("a file", p.create("file"), "")
	p.mkdir("one/two/three/four/five")
	p.show("deep", p.create("one/two/three/four/five/six"), "")
	p.show("a directory", p.open(p.at("one/two")), "")
	p.show("a name of 255 bytes", p.create(strings.Repeat("n", 255)), "")
	p.show("control characters", p.create("x\033[31m\n\t\\ä\xff"), "")
	p.show("a space and a mark", p.create("it is (deleted)"), "")
	fd := p.create("gone")
	p.must("unlink", unix.Unlink(p.at("gone")))
	p.show("deleted", fd, "")
	p.mkdir("old")
	fd = p.open(p.at("old"))
	p.must("rmdir", unix.Rmdir(p.at("old")))
	p.show("a deleted directory", fd, "")
	fd, err := unix.Open(p.dir, unix.O_TMPFILE|unix.O_RDWR, 0o600)
	if err == nil {
		p.show("without a name", fd, "")
	}
	p.show("the root", p.open("/"), "")
	p.show("proc", p.open("/proc"), "proc")
	p.show("a file of proc", p.open("/proc/self/status"), "proc")
	p.show("a device", p.open("/dev/null"), "")

	var pair [2]int
	p.must("pipe", unix.Pipe2(pair[:], unix.O_CLOEXEC))
	p.show("a pipe, reading", pair[0], "pipefs")
	p.show("a pipe, writing", pair[1], "pipefs")
	for _, family := range []int{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
		if fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
			p.show(fmt.Sprint("a socket of family ", family), fd, "sockfs")
		}
	}
	fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC)
	p.must("eventfd", err)
	p.show("eventfd", fd, "anon_inodefs")
	fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	p.must("epoll", err)
	p.show("epoll", fd, "anon_inodefs")
	fd, err = unix.MemfdCreate("a memory file", unix.MFD_CLOEXEC)
	p.must("memfd", err)
	p.show("memfd", fd, "tmpfs anonymous")
	if fd, err = unix.PidfdOpen(os.Getpid(), 0); err == nil {
		p.show("pidfd", fd, "")
	}
	for _, kind := range []string{"net", "mnt", "pid", "pid_for_children", "user"} {
		p.show("a namespace: "+kind, p.open("/proc/self/ns/"+kind), "nsfs")
	}
}

// mountedFiles opens files in mounts.
func mountedFiles(p *pathThread) {
	p.mount("tmpfs", p.mkdir("tmp"), "tmpfs", 0, "")
	p.mkdir("tmp/a/b")
	p.show("tmpfs", p.create("tmp/a/b/c"), "tmpfs")
	p.show("the root of a mount", p.open(p.at("tmp")), "tmpfs")

	p.mount(p.at("tmp/a"), p.mkdir("bound"), "", unix.MS_BIND, "")
	p.show("a bind mount", p.open(p.at("bound/b/c")), "tmpfs")
	p.mount("tmpfs", p.at("bound/b"), "tmpfs", 0, "")
	p.mkdir("bound/b/x")
	p.show("a mount in a bind mount", p.create("bound/b/x/y"), "tmpfs")
	p.mount("tmpfs", p.at("bound/b"), "tmpfs", 0, "")
	p.show("a mount over a mount", p.create("bound/b/z"), "tmpfs")

	p.create("one-file")
	p.mount(p.at("tmp/a/b/c"), p.at("one-file"), "", unix.MS_BIND, "")
	p.show("a mounted file", p.open(p.at("one-file")), "tmpfs")
	p.create("net")
	p.mount("/proc/self/ns/net", p.at("net"), "", unix.MS_BIND, "")
	p.show("a mounted namespace", p.open(p.at("net")), "nsfs")

	for _, d := range []string{"over/lower/in", "over/upper", "over/work", "merged"} {
		p.mkdir("tmp/" + d)
	}
	p.create("tmp/over/lower/in/below")
	if err := unix.Mount("overlay", p.at("tmp/merged"), "overlay", 0, fmt.Sprintf(
		"lowerdir=%s,upperdir=%s,workdir=%s", p.at("tmp/over/lower"), p.at("tmp/over/upper"),
		p.at("tmp/over/work"),
	)); err == nil {
		p.show("overlay, below", p.open(p.at("tmp/merged/in/below")), "overlay")
		p.show("overlay, above", p.create("tmp/merged/in/above"), "overlay")
	} else {
		p.t.Logf("overlay: %v", err)
	}

	p.mount("tmpfs", p.mkdir("detached"), "tmpfs", 0, "")
	p.mkdir("detached/d")
	fd := p.create("detached/d/e")
	p.must("umount", unix.Unmount(p.at("detached"), unix.MNT_DETACH))
	p.show("a mount that is gone", fd, "tmpfs")
	p.files[len(p.files)-1].mount = "?"

	outside := p.open("/proc/version")
	p.mkdir("tmp/a/root/etc")
	p.mkdir("tmp/a/root/more")
	p.mount("tmpfs", p.at("tmp/a/root/more"), "tmpfs", 0, "")
	before := p.create("tmp/a/b/outside")
	p.must("chroot", unix.Chroot(p.at("tmp/a/root")))
	p.dir = "/"
	p.show("in another root", p.create("etc/passwd"), "tmpfs")
	p.files[len(p.files)-1].mount = "/"
	p.show("another root", p.open("/"), "tmpfs")
	p.files[len(p.files)-1].mount = "/"
	p.show("a mount in another root", p.create("more/file"), "tmpfs")
	p.show("outside the root", before, "tmpfs")
	p.files[len(p.files)-1].mount = "/"
	p.show("outside the root, another mount", outside, "proc")
	p.files[len(p.files)-1].mount = "?"
}

// The names of files are those of /proc/PID/fd, and their mounts those of mountinfo.
func TestPaths(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(*pathThread)
		most int
	}{
		{"files", plainFiles, 34},
		{"mounts", mountedFiles, 15},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files, parts := pathParts(t, 512, tt.do)
			if len(files) < tt.most-8 {
				t.Errorf("%d files", len(files))
			}
			comparePaths(t, 512, files, parts)
		})
	}
}

// A path that is longer than a string begins with dots, at the start of a name if possible.
func TestLongPaths(t *testing.T) {
	for _, strsize := range []int{32, 64, 100, 256, 1024} {
		t.Run(strconv.Itoa(strsize), func(t *testing.T) {
			files, parts := pathParts(t, strsize, func(p *pathThread) {
				p.mount("tmpfs", p.mkdir("t"), "tmpfs", 0, "")
				root := p.open(p.at("t"))
				p.must("chroot", unix.Chroot(p.at("t"))) // so that the length is known
				defer unix.Close(root)
				p.dir = "/"
				for n := range 20 {
					name := strings.Repeat("d", strsize/3) + "/" +
						strings.Repeat("e", strsize/3) + "/" + strings.Repeat("f", 10+n)
					if strsize > 700 {
						name = strings.Repeat("g", 200) + "/" + strings.Repeat("h", 200) + "/" +
							strings.Repeat("i", 200) + "/" + strings.Repeat("k", 200) + "/" +
							strings.Repeat("l", 200) + "/" + strings.Repeat("m", 10+n)
					}
					p.mkdir(path.Dir(name))
					p.show(fmt.Sprint("directories, ", n), p.create(name), "")
					last := strings.Repeat("n", min(strsize+4-n, 255))
					p.show(fmt.Sprint("a long name, ", n), p.create(last), "")
				}
				for i := range p.files {
					p.files[i].mount = "/"
				}
			})
			comparePaths(t, strsize, files, parts)
		})
	}
}

// A path of more names than are followed begins with dots, too.
func TestDeepPaths(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, strings.Repeat("d/", 300))
	if err := os.MkdirAll(name, 0o700); err != nil { // before the time of the program runs
		t.Fatal(err)
	}
	r := Request{
		Parts: []Part{{'n', `syscall::lseek:entry /pid == $pid && arg2 == 99/ {
			printf("%s\n", fds[arg0].fi_pathname); }`}},
		Options: []string{"quiet", "strsize=2048"},
	}
	_, out, errs := traced(t, r, func() {
		fd, err := unix.Open(name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fd)
		unix.Seek(fd, 0, 99) //nolint:errcheck // it fails; it is traced
	})
	if errs != "" {
		t.Error(errs)
	}
	got := strings.TrimSpace(out)
	rest, cut := strings.CutPrefix(got, "...")
	if !cut || !strings.HasSuffix(name, rest) || !strings.HasPrefix(rest, "/d/d/") ||
		strings.Count(rest, "/") < 50 {
		t.Errorf("the path is %q of %q", got, name)
	}
}

// path() of bpftrace is the path, also of a struct within another, and longer than str().
func TestBpftracePath(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs: root (BPF)")
	}
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 40), strings.Repeat("e", 40))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, tt := range []struct{ name, call, want string }{
		{"a struct", "path($t->fs->pwd)", dir},
		{"a pointer", "path(&$t->fs->pwd)", dir},
		{"the first bytes", "path($t->fs->pwd, 20)", dir[:19]},
		{"the root", "path($t->fs->root)", "/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, messages, err := runBpftrace(t, BpftraceRequest{Program: `BEGIN {
				$t = (struct task_struct *)curtask; printf("%s\n", ` + tt.call + `); exit(); }`})
			if err != nil || messages != "" {
				t.Fatalf("%v %s", err, messages)
			}
			if _, got, _ := strings.Cut(strings.TrimSpace(out), "\n"); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// The file of a request is that whose pages it transfers. Data that is written past the page cache
// has none.
func TestRequestFiles(t *testing.T) {
	onExt4(t)
	const size = 1 << 20
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name string, flags int) {
		fd, err := unix.Open(
			filepath.Join(dir, name), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC|flags, 0o600,
		)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fd)
		memory, err := unix.Mmap(
			-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON,
		)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Munmap(memory) //nolint:errcheck // it goes with the process
		for i := range memory {
			memory[i] = byte(i)
		}
		if n, err := unix.Write(fd, memory); err != nil || n != size {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		if err := unix.Fsync(fd); err != nil {
			t.Error(err)
		}
	}
	_, out, errs := traced(t, program(`
		io:::start { @["start", args[2]->fi_pathname, args[2]->fi_name, args[2]->fi_dirname, args[2]->fi_mount, args[2]->fi_fs] = sum(args[0]->b_bcount); }
		io:::done { @["done", args[2]->fi_pathname, args[2]->fi_name, args[2]->fi_dirname, args[2]->fi_mount, args[2]->fi_fs] = sum(args[0]->b_bcount); }
		END { printa("%%s|%%s|%%s|%%s|%%s|%%s|%%@d\n", @); }`), func() {
		write("buffered", 0)
		write("direct", unix.O_DIRECT)
	})
	if errs != "" {
		t.Error(errs)
	}
	mount := mountPointOf(t, dir)
	bytes, none := map[string]int{}, map[string]int{}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 7 {
			continue
		}
		n, err := strconv.Atoi(f[6])
		if err != nil {
			t.Fatal(err)
		}
		switch f[1] {
		case filepath.Join(dir, "buffered"):
			bytes[f[0]] += n
			if f[2] != "buffered" || f[3] != dir || f[4] != mount || f[5] != "ext4" {
				t.Errorf("%q, want buffered, %s, %s, ext4", f, dir, mount)
			}
		case "<none>":
			none[f[0]] += n
			if f[2] != "<none>" || f[3] != "<none>" || f[4] != "<none>" || f[5] != "<none>" {
				t.Errorf("%q, want <none> in all", f)
			}
		default:
			if f[2] == "direct" || f[2] == "" || f[5] == "bdev" {
				t.Errorf("a request of %q", f)
			}
		}
	}
	for _, at := range []string{"start", "done"} {
		if bytes[at] != size {
			t.Errorf("%s: %d bytes of the file, want %d", at, bytes[at], size)
		}
		if none[at] < size {
			t.Errorf("%s: %d bytes of no file, want at least %d", at, none[at], size)
		}
	}
}

// mountPointOf returns the mount that contains a path, by mountinfo.
func mountPointOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	best := ""
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if at := f[4]; len(at) > len(best) &&
			strings.HasPrefix(name, strings.TrimSuffix(at, "/")+"/") {
			best = at
		}
	}
	return best
}
