package process

import (
	"encoding/binary"
	"errors"
	"fmt"

	"culprit/kernel/netlink"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// pulse is what tells whether a process has run: numbers that only grow, and grow whenever one of its threads gets a CPU.
type pulse struct {
	run   uint64 // nanoseconds on a CPU, brought up to date at each tick (4 ms or less) and each switch
	wait  uint64 // nanoseconds ready and waiting for a CPU, added when the wait ends
	count uint64 // times that a thread was put on a CPU
}

// taskStats is the part of struct taskstats that is used, summed over the threads of a process.
type taskStats struct {
	pulse                                     // of ended threads too
	voluntary, involuntary uint64             // switches of the threads that live
	delays                 [delayKinds]uint64 // nanoseconds, of ended threads too
	kinds                  int                // how many of delays this kernel has, in the order of delayReasons
}

const delayKinds = 8

// delayReasons are the words of process.delay's reason, in the order in which kernels learnt to measure them.
func delayReasons() []string {
	return []string{"blkio", "swapin", "reclaim", "thrashing", "compact", "wpcopy", "irq", "softirq"}
}

// Offsets in struct taskstats, include/uapi/linux/taskstats.h. New versions add fields at its end, but for version 15 (Linux 6.14
// and 6.15), which put a maximum and a minimum behind each total in its midst; version 16 took them out again.
//
//	0   version u16, exitcode u32, flag u8, nice u8
//	16  cpu_count  cpu_delay_total  blkio_count  blkio_delay_total  swapin_count  swapin_delay_total
//	64  cpu_run_real_total  cpu_run_virtual_total  ac_comm[32] ...
//	272 nvcsw nivcsw ...  312 freepages_count _total  328 thrashing  344 ac_btime64  352 compact  368 v12 ...  400 wpcopy  416 irq ...  560 softirq
const (
	tsVersion, tsCPU, tsBlkio, tsSwapin                = 0, 16, 32, 48
	tsVirtual, tsSwitches, tsReclaim                   = 72, 272, 312
	tsThrashing, tsCompact, tsWpcopy, tsIrq, tsSoftirq = 328, 352, 400, 416, 560
	tsLeast                                            = tsReclaim + 16 // version 8, Linux 2.6.31
)

// parseTaskStats reads a struct taskstats; false when it is too short or of version 15, whose delays stand elsewhere: then files are read instead.
func parseTaskStats(b []byte, t *taskStats) bool {
	if len(b) < tsLeast || binary.NativeEndian.Uint16(b[tsVersion:]) == 15 {
		return false
	}
	u := func(at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	*t = taskStats{pulse: pulse{run: u(tsVirtual), wait: u(tsCPU + 8), count: u(tsCPU)}, voluntary: u(tsSwitches), involuntary: u(tsSwitches + 8)}
	for _, at := range [...]int{tsBlkio, tsSwapin, tsReclaim, tsThrashing, tsCompact, tsWpcopy, tsIrq, tsSoftirq} {
		if at+16 > len(b) {
			break
		}
		t.delays[t.kinds] = u(at + 8)
		t.kinds++
	}
	return true
}

// Commands and attributes of the family TASKSTATS, include/uapi/linux/taskstats.h.
const (
	taskstatsGet       = 1
	taskstatsPID       = 1 // CMD_ATTR_PID: one thread
	taskstatsTGID      = 2 // CMD_ATTR_TGID: a process
	taskstatsTypeStats = 3
	taskstatsAggrPID   = 4
	taskstatsAggrTGID  = 5
)

// taskstatsRoad asks the kernel for many processes or threads at a time: 2 microseconds each, in place of 1.9 for schedstat
// alone from a file kept open, and for processes of many threads far less than their files.
type taskstatsRoad struct {
	conn   *netlink.Conn
	family netlink.Family
	attr   uint16
	ids    []int32
	each   func(i int, t *taskStats, err error)
	stats  taskStats
	ask    func(i int, q *netlink.Request)
	take   func(i int, typ uint16, payload []byte, err error) error
}

// openTaskstats tries the road with a process that must exist; errors.Is measure.ErrDenied without CAP_NET_ADMIN (in the first
// user namespace), measure.ErrUnsupported where it is not built in or unusable.
func openTaskstats(self int32) (*taskstatsRoad, error) {
	conn, err := netlink.Dial(unix.NETLINK_GENERIC, netlink.Options{})
	if err != nil {
		return nil, err
	}
	r := &taskstatsRoad{conn: conn}
	r.ask, r.take = r.build, r.taken // bound once: a bound method allocates
	if r.family, err = conn.Family("TASKSTATS"); err != nil {
		conn.Close()
		return nil, err
	}
	var why error
	var got taskStats
	err = r.get(taskstatsTGID, []int32{self}, func(_ int, t *taskStats, err error) {
		if why = err; err == nil {
			got = *t
		}
	})
	if err == nil {
		err = why
	}
	if err == nil && got.count == 0 { // before 5.14 only with delay accounting on
		err = fmt.Errorf("taskstats do not count: %w", measure.ErrUnsupported)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return r, nil
}

func (r *taskstatsRoad) close() {
	if r != nil {
		r.conn.Close()
	}
}

// get calls each once for each id, with errors.Is fs.ErrNotExist for those that have ended.
func (r *taskstatsRoad) get(attr uint16, ids []int32, each func(i int, t *taskStats, err error)) error {
	r.attr, r.ids, r.each = attr, ids, each
	return r.conn.GetEach(len(ids), r.ask, r.take)
}

func (r *taskstatsRoad) build(i int, q *netlink.Request) {
	q.BeginGeneric(r.family, taskstatsGet, 0)
	q.AttrUint32(r.attr, uint32(r.ids[i]))
}

var errTaskstats = errors.New("unreadable taskstats")

func (r *taskstatsRoad) taken(i int, _ uint16, payload []byte, err error) error {
	if err == nil && !findTaskStats(payload, &r.stats) {
		err = fmt.Errorf("%w: %w", errTaskstats, measure.ErrUnsupported)
	}
	r.each(i, &r.stats, err)
	return nil
}

// findTaskStats reads a whole answer: AGGR_PID or AGGR_TGID { PID or TGID, STATS }.
func findTaskStats(payload []byte, t *taskStats) bool {
	_, attrs, ok := netlink.Generic(payload)
	if !ok {
		return false
	}
	for a := netlink.AttrsOf(attrs); a.Next(); {
		if a.Type() != taskstatsAggrPID && a.Type() != taskstatsAggrTGID {
			continue
		}
		for n := a.Nested(); n.Next(); {
			if n.Type() == taskstatsTypeStats {
				return parseTaskStats(n.Value(), t)
			}
		}
	}
	return false
}
