package facts

import (
	"strings"

	"culprit/diagnose"
)

// BlockedOn is the kind of thing that threads in uninterruptible sleep wait for.
type BlockedOn string

// The kinds. OnOther: a kernel function that is in no list.
const (
	OnFrozen    BlockedOn = "frozen"    // a file system that is frozen
	OnServer    BlockedOn = "server"    // the server of a network file system
	OnDaemon    BlockedOn = "daemon"    // the process that serves a FUSE or automount file system
	OnMemory    BlockedOn = "memory"    // memory that the kernel reclaims
	OnJournal   BlockedOn = "journal"   // the journal of a file system
	OnWriteback BlockedOn = "writeback" // dirty pages that are written
	OnDisk      BlockedOn = "disk"      // requests to a device
	OnChild     BlockedOn = "child"     // a child that shares the memory of its parent (vfork)
	OnMap       BlockedOn = "map"       // the lock of the process's own memory map
	OnFreezer   BlockedOn = "freezer"   // somebody paused the control group
	OnOther     BlockedOn = "kernel"
)

// BlockedKind returns what threads wait for, by the fields of process.blocked. Names of functions
// are those of Linux 3.10 to 6.18.
func BlockedKind(wchan, caller, mount, fstype string) BlockedOn {
	if wchan == "percpu_rwsem_wait" || strings.HasPrefix(wchan, "__sb_start_write") ||
		caller == "mnt_want_write" || caller == "mnt_want_write_file" ||
		strings.HasPrefix(caller, "__sb_start_write") {
		// the lock of control groups is of the same kind
		if mount != "" && !strings.HasPrefix(fstype, "cgroup") || caller == "mnt_want_write" ||
			strings.HasPrefix(wchan+caller, "__sb_start_write") {
			return OnFrozen
		}
	}
	for _, k := range blockedKinds() {
		for _, prefix := range k.functions {
			if strings.HasPrefix(wchan, prefix) || strings.HasPrefix(caller, prefix) {
				return k.kind
			}
		}
		for _, t := range k.types {
			if fstype == t || strings.HasPrefix(fstype, t+".") {
				return k.kind
			}
		}
	}
	return OnOther
}

// blockedKinds are the beginnings of functions, and types of file systems, of each kind. The first
// that fits counts.
func blockedKinds() []struct {
	kind      BlockedOn
	functions []string
	types     []string
} {
	return []struct {
		kind      BlockedOn
		functions []string
		types     []string
	}{
		{OnFreezer, []string{"__refrigerator", "do_freezer_trap"}, nil},
		{OnMemory, []string{"mem_cgroup_", "try_charge", "try_to_free_", "shrink_", "__alloc_pages",
			"throttle_direct_reclaim", "reclaim_throttle", "do_swap_page", "__swap", "swap_",
			"congestion_wait", "oom_"}, nil},
		{OnServer, []string{"rpc_", "__rpc_", "nfs", "__nfs", "cifs_", "smb", "SendReceive",
			"compound_send_recv", "wait_for_response", "ceph_", "p9_", "v9fs_", "afs_"},
			[]string{"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "afs"}},
		{OnDaemon, []string{"fuse_", "request_wait_answer", "__fuse", "autofs"},
			[]string{"fuse", "fuseblk", "autofs"}},
		{OnJournal, []string{"jbd2_", "wait_transaction_", "add_transaction_credits",
			"start_this_handle", "do_get_write_access", "xlog_", "xfs_log_", "__xfs_log_",
			"wait_current_trans", "btrfs_commit_", "btrfs_wait_for_commit"}, nil},
		{OnWriteback, []string{"balance_dirty_pages", "wb_wait_", "writeback_", "sync_inodes_sb",
			"__writeback_", "wait_sb_inodes", "filemap_fdatawait", "__filemap_fdatawait",
			"file_write_and_wait", "filemap_write_and_wait"}, nil},
		{OnChild, []string{"kernel_clone", "_do_fork", "do_fork", "wait_for_vfork_done"}, nil},
		{OnMap, []string{"do_user_addr_fault", "__do_page_fault", "lock_mm_and_find_vma",
			"vm_mmap_pgoff", "vm_munmap", "__vm_munmap", "do_mprotect_pkey", "do_madvise",
			"access_remote_vm", "__access_remote_vm"}, nil},
		{OnDisk, []string{"io_schedule", "folio_", "__folio", "wait_on_page", "__lock_page",
			"__wait_on_buffer", "sleep_on_buffer", "submit_bio", "blk_", "bit_wait_io", "bio_",
			"blkdev_", "dm_", "wbt_wait", "rq_qos_wait", "sbitmap", "filemap_", "generic_file_",
			"do_blockdev_direct", "__blockdev_direct", "dio_", "iomap_", "__iomap_", "__blkdev",
			"wait_on_sync_kiocb", "ext4_", "xfs_", "btrfs_", "read_cache_", "do_read_cache_",
			"__bread", "__breadahead", "md_", "raid", "invalidate_", "truncate_"}, nil},
	}
}

// IsFilesystem reports whether threads of this kind wait for a file system that something else than
// a device holds up.
func (k BlockedOn) IsFilesystem() bool {
	return k == OnFrozen || k == OnServer || k == OnDaemon
}

// OnDevice reports whether a slow or limited device explains a wait of this kind.
func (k BlockedOn) OnDevice() bool { return k == OnDisk || k == OnJournal || k == OnWriteback }

// BlockedOnDevice reports whether a finding is of threads that wait for a device.
func BlockedOnDevice(f *diagnose.Finding) bool {
	k, ok := f.Subject.(BlockedOn)
	return ok && k.OnDevice()
}

// BlockedOnMemory reports whether a finding is of threads that wait for memory, or for the device
// from which pages are read back.
func BlockedOnMemory(f *diagnose.Finding) bool {
	k, ok := f.Subject.(BlockedOn)
	return ok && (k == OnMemory || k.OnDevice())
}
