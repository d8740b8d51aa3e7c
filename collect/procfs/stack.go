package procfs

import (
	"bytes"
)

// StackFunction returns the innermost function of /proc/PID/stack that is not a primitive of the
// scheduler or of locks, so that it shows what is waited for; nil when there is none. The file
// needs CAP_SYS_ADMIN since Linux 4.20. The result is a part of b.
//
//	[<0>] percpu_rwsem_wait+0x15f/0x1d0
//	[<0>] mnt_want_write+0x96/0xc0                  this one
//	[<0>] path_openat+0x4cf/0x12d0
func StackFunction(b []byte) []byte {
	for len(b) > 0 {
		var line []byte
		line, b = CutLine(b)
		_, name, ok := bytes.Cut(line, []byte("] "))
		if !ok {
			continue
		}
		if name = FunctionName(name); len(name) > 0 && !waitPrimitive(name) {
			return name
		}
	}
	return nil
}

// FunctionName returns the name of a kernel function without its offset and without the suffixes
// of compilers: "rpc_wait.isra.0+0x12/0x40" is rpc_wait. It returns nil for anything else. The
// result is a part of b.
func FunctionName(b []byte) []byte {
	n := 0
	for n < len(b) && (b[n] == '_' || b[n]|0x20 >= 'a' && b[n]|0x20 <= 'z' ||
		n > 0 && b[n] >= '0' && b[n] <= '9') {
		n++
	}
	if n == 0 || n > 128 || n < len(b) && bytes.IndexByte([]byte(".+ \n"), b[n]) < 0 {
		return nil
	}
	return b[:n]
}

// waitPrimitive reports whether a function only waits, on behalf of its caller.
func waitPrimitive(name []byte) bool {
	switch string(name) {
	case "schedule", "schedule_timeout", "schedule_timeout_uninterruptible", "__schedule",
		"schedule_preempt_disabled", "io_schedule", "io_schedule_timeout", "bit_wait",
		"bit_wait_io", "down", "down_read", "down_write", "down_write_killable",
		"down_read_killable", "mutex_lock", "mutex_lock_killable", "msleep", "submit_bio_wait",
		"blk_io_schedule", "wait_on_commit", "folio_wait_writeback", "__folio_lock",
		"__folio_lock_killable", "__lock_page", "wait_on_page_bit", "preempt_schedule_common",
		"__cond_resched", "percpu_rwsem_wait", "__percpu_down_read", "percpu_down_write",
		"rt_mutex_slowlock_block", "sleep_on_page", "blk_wait_io", "wait_on_page_writeback":
		return true
	}
	for _, prefix := range []string{"rwsem_down_", "__rwsem_down", "__down", "__mutex_lock",
		"wait_for_completion", "wait_for_common", "__wait_for_common", "__wait_on_bit",
		"out_of_line_wait_on_bit", "wait_on_bit", "folio_wait_bit", "__wait_on_buffer",
		"call_rwsem_down", "rt_mutex_slowlock", "rwbase_"} {
		if bytes.HasPrefix(name, []byte(prefix)) {
			return true
		}
	}
	return false
}
