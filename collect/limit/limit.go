package limit

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"culprit/collect"
	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/kernel/proc"
	"culprit/measure"
)

// stats declares limit.used and limit.size. Collectors share them and put rows of their own.
func stats() []measure.Stat {
	fields := []measure.Field{
		{Name: "resource", Type: measure.Word, Help: "threads pids keys key-bytes shm-segments " +
			"shm-bytes semaphore-sets semaphores message-queues posix-queues tcp-memory " +
			"udp-memory aio-requests inotify-instances inotify-watches; -bytes and -memory are " +
			"in bytes, the others are numbers"},
		{Name: "owner", Type: measure.Word, Help: "user ID; empty: the machine, or the IPC " +
			"namespace of culprit"},
	}
	return []measure.Stat{
		{ID: "limit.used", Kind: measure.Level, Unit: measure.Count, Fold: measure.Max,
			Fields: fields, Help: "how much of a limited resource is in use (/proc/loadavg, " +
				"/proc/key-users, /proc/sysvipc, /proc/net/sockstat, /proc/sys/fs/aio-nr, " +
				"/proc/PID/fdinfo)"},
		{ID: "limit.size", Kind: measure.Level, Unit: measure.Count, Fold: measure.Max,
			Fields: fields, Help: "limit of a resource; no row if it has none (/proc/sys/kernel, " +
				"/proc/sys/net, /proc/sys/fs)"},
	}
}

// Limits reads limits whose use the kernel shows in a file.
type Limits struct{}

// Stats returns limit.used and limit.size.
func (Limits) Stats() []measure.Stat { return stats() }

const (
	// everyReadings is how often files are read that grow with the number of objects in them.
	everyReadings = 5
	unlimited     = 1 << 60 // SysV's defaults are near the largest number
)

// Open prepares to read. Files that this kernel does not have are left out. The error is always
// nil. The caller closes the Reading.
func (Limits) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	return &limitReading{root: env.Root, inner: feature.InPIDNamespace(env.Root),
		page: float64(os.Getpagesize())}, nil
}

type limitReading struct {
	root     kernel.Root
	inner    bool // in a PID namespace, which has its own pid_max
	page     float64
	readings int
	buf      []byte
	rows     []limitRow // of the files that are read now and then
}

type limitRow struct {
	resource, owner string
	used, size      float64
}

func (r *limitReading) Close() {}

// Read implements collect.Reading.
func (r *limitReading) Read(out *collect.Out) error {
	rows := r.tasks(nil)
	rows = r.memory(rows)
	// What io_setup(2) reserved: contexts that are not used count too.
	rows = append(rows, limitRow{"aio-requests", "", r.number("sys/fs/aio-nr", 0),
		r.number("sys/fs/aio-max-nr", 0)})
	if r.readings%everyReadings == 0 {
		r.rows = r.ipc(r.keys(r.rows[:0]))
	}
	r.readings++
	rows = append(rows, r.rows...)
	if len(rows) == 0 {
		return fmt.Errorf("read limits of the kernel: %w", measure.ErrUnsupported)
	}
	put(out, rows)
	return nil
}

// put puts the rows with a known use and a limit.
func put(out *collect.Out, rows []limitRow) {
	used, size := out.Table("limit.used"), out.Table("limit.size")
	for _, row := range rows {
		if row.used != row.used || !(row.size > 0) || row.size >= unlimited {
			continue
		}
		used.Row(row.used, row.resource, row.owner)
		size.Row(row.size, row.resource, row.owner)
	}
}

// file returns the content of a file below /proc; nil when it cannot be read.
func (r *limitReading) file(name string) []byte {
	b, err := proc.ReadProc(r.root, name, r.buf)
	if err != nil {
		return nil // not in this kernel, or not readable: its rows are missing
	}
	r.buf = b
	return b
}

// number returns the i-th number of a file; NaN when there is none.
func (r *limitReading) number(name string, i int) float64 {
	words := strings.Fields(string(r.file(name)))
	if i >= len(words) {
		return measure.NaN
	}
	v, err := strconv.ParseFloat(words[i], 64)
	if err != nil {
		return measure.NaN
	}
	return v
}

// tasks adds the threads of the machine, which also bound the process IDs.
func (r *limitReading) tasks(rows []limitRow) []limitRow {
	threads := existing(r.file("loadavg"))
	rows = append(rows, limitRow{"threads", "", threads, r.number("sys/kernel/threads-max", 0)})
	if !r.inner {
		rows = append(rows, limitRow{"pids", "", threads, r.number("sys/kernel/pid_max", 0)})
	}
	return rows
}

// existing returns the existing threads in /proc/loadavg: "0.69 0.41 0.20 1/94 13674".
func existing(b []byte) float64 {
	words := strings.Fields(string(b))
	if len(words) < 4 {
		return measure.NaN
	}
	_, after, ok := strings.Cut(words[3], "/")
	v, err := strconv.ParseUint(after, 10, 32)
	if !ok || err != nil {
		return measure.NaN
	}
	return float64(v)
}

// memory adds the memory of TCP and UDP sockets: pages in sockstat, and the third number of
// tcp_mem.
func (r *limitReading) memory(rows []limitRow) []limitRow {
	tcp, udp := socketPages(r.file("net/sockstat"))
	return append(rows,
		limitRow{"tcp-memory", "", tcp * r.page, r.number("sys/net/ipv4/tcp_mem", 2) * r.page},
		limitRow{"udp-memory", "", udp * r.page, r.number("sys/net/ipv4/udp_mem", 2) * r.page})
}

// socketPages returns the pages of TCP and UDP sockets in /proc/net/sockstat; NaN when missing.
//
//	TCP: inuse 5 orphan 0 tw 0 alloc 8 mem 1
//	UDP: inuse 2 mem 0
func socketPages(b []byte) (tcp, udp float64) {
	tcp, udp = measure.NaN, measure.NaN
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		for i := 1; i+1 < len(words); i += 2 {
			v, err := strconv.ParseUint(words[i+1], 10, 64)
			switch {
			case words[i] != "mem" || err != nil:
			case words[0] == "TCP:":
				tcp = float64(v)
			case words[0] == "UDP:":
				udp = float64(v)
			}
		}
	}
	return tcp, udp
}

// keys adds the keys of each user.
func (r *limitReading) keys(rows []limitRow) []limitRow {
	return appendKeys(rows, r.file("key-users"))
}

// appendKeys adds the rows of /proc/key-users (keyrings(7)). The limits count keys of the user, not
// those of the kernel.
//
//	UID: usage nkeys/nikeys qnkeys/maxkeys qnbytes/maxbytes
//	  0:    12 11/11 10/1000000 250/25000000
func appendKeys(rows []limitRow, b []byte) []limitRow {
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		if len(words) < 5 {
			continue
		}
		owner := strings.TrimSuffix(words[0], ":")
		if _, err := strconv.ParseUint(owner, 10, 32); err != nil {
			continue
		}
		for i, resource := range []string{"keys", "key-bytes"} {
			used, size, ok := strings.Cut(words[3+i], "/")
			u, err1 := strconv.ParseUint(used, 10, 64)
			s, err2 := strconv.ParseUint(size, 10, 64)
			if ok && err1 == nil && err2 == nil {
				rows = append(rows, limitRow{resource, owner, float64(u), float64(s)})
			}
		}
	}
	return rows
}

// ipc adds the objects of System V IPC, and POSIX message queues.
func (r *limitReading) ipc(rows []limitRow) []limitRow {
	segments, bytes := tally(r.file("sysvipc/shm"), "size")
	sets, semaphores := tally(r.file("sysvipc/sem"), "nsems")
	queues, _ := tally(r.file("sysvipc/msg"), "")
	rows = append(rows,
		limitRow{"shm-segments", "", segments, r.number("sys/kernel/shmmni", 0)},
		limitRow{"shm-bytes", "", bytes, r.number("sys/kernel/shmall", 0) * r.page},
		limitRow{"semaphore-sets", "", sets, r.number("sys/kernel/sem", 3)},
		limitRow{"semaphores", "", semaphores, r.number("sys/kernel/sem", 1)},
		limitRow{"message-queues", "", queues, r.number("sys/kernel/msgmni", 0)})
	if r.root.Real() {
		if names, err := os.ReadDir("/dev/mqueue"); err == nil {
			rows = append(rows, limitRow{"posix-queues", "", float64(len(names)),
				r.number("sys/fs/mqueue/queues_max", 0)})
		}
	}
	return rows
}

// tally counts the objects in a file of /proc/sysvipc, and adds up a column of them. NaN when the
// file or the column is missing.
func tally(b []byte, column string) (objects, sum float64) {
	objects, sum = measure.NaN, measure.NaN
	at := -1
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		if objects != objects { // the first line has the names of the columns
			objects = 0
			for i, w := range words {
				if w == column {
					at, sum = i, 0
				}
			}
			continue
		}
		objects++
		if at >= 0 && at < len(words) {
			v, err := strconv.ParseUint(words[at], 10, 64)
			if err != nil {
				sum = measure.NaN
				continue
			}
			sum += float64(v)
		}
	}
	return objects, sum
}
