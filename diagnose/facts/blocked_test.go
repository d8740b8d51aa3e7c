package facts

import "testing"

func TestBlockedKind(t *testing.T) {
	for _, tt := range []struct {
		name                         string
		wchan, caller, mount, fstype string
		want                         BlockedOn
	}{
		{"frozen, by the file", "percpu_rwsem_wait", "", "/mnt", "ext4", OnFrozen},
		{"frozen, by the stack", "percpu_rwsem_wait", "mnt_want_write", "", "", OnFrozen},
		{"frozen, Linux 4.18", "__sb_start_write", "", "", "", OnFrozen},
		{"the lock of control groups", "percpu_rwsem_wait", "cgroup_kn_lock_live", "/sys/fs/cgroup",
			"cgroup2", OnOther},
		{"the same in fork", "percpu_rwsem_wait", "cgroup_css_set_fork", "", "", OnOther},
		{"nfs, by the function", "rpc_wait_bit_killable", "", "", "", OnServer},
		{"nfs, by the type", "folio_wait_bit_common", "", "/home", "nfs4", OnServer},
		{"sshfs", "folio_wait_bit_common", "", "/mnt", "fuse.sshfs", OnDaemon},
		{"another type that begins alike", "some_wait", "", "/mnt", "fusectl", OnOther},
		{"memory on a network file system", "mem_cgroup_handle_over_high", "", "/home", "nfs",
			OnMemory},
		{"fsync", "jbd2_log_wait_commit", "ext4_sync_file", "/", "ext4", OnJournal},
		{"dirty pages", "balance_dirty_pages", "ext4_buffered_write_iter", "/", "ext4",
			OnWriteback},
		{"a read", "folio_wait_bit_common", "filemap_read", "/", "ext4", OnDisk},
		{"vfork", "kernel_clone", "", "", "", OnChild},
		{"the memory map", "rwsem_down_write_slowpath", "vm_mmap_pgoff", "", "", OnMap},
		{"docker pause", "__refrigerator", "", "", "", OnFreezer},
		{"nothing known", "", "", "", "", OnOther},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := BlockedKind(tt.wchan, tt.caller, tt.mount, tt.fstype); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
