package facts

import (
	"slices"
	"strings"
	"testing"
)

// TestEverydayFamilies: each family has its own functions, and none that only begins like one of
// them.
func TestEverydayFamilies(t *testing.T) {
	for _, tt := range []struct {
		work   string
		has    []string
		hasNot []string // the same first word, other work
	}{
		{"copying", []string{"rep_movs_alternative", "_copy_from_iter", "copy_page_to_iter",
			"memmove", "__get_user_4"},
			[]string{"copy_page_range", "copy_process", "copy_pte_range", "copy_hugetlb_page_range",
				"copy_net_ns", "__copy_siginfo"}},
		{"clearing memory", []string{"clear_page_erms", "__memset", "get_random_bytes"},
			[]string{"clear_inode", "clear_refs_pte_range", "clear_shadow_entries",
				"zero_fill_bio_iter", "clear_warn_once"}},
		{"checksums", []string{"csum_partial", "crc32c_x86_3way", "xxh64_update", "xor_avx_2"},
			[]string{"csum_tree_block", "crc_32_unknown", "csum_one_bio",
				"btrfs_csum_file_blocks"}},
		{"encryption", []string{"aes_gcm_enc_vaes_avx512", "sha256_transform_rorx",
			"chacha_block_xor_avx2"},
			[]string{"crypto_alg_lookup", "crypto_larval_wait", "aes_expandkey",
				"sha256_mod_init"}},
		{"compression", []string{"LZ4_decompress_safe_partial", "ZSTD_decompressBlock_internal",
			"inflate_fast"},
			[]string{"zstd_get_workspace", "inflate_error", "deflate_lock"}},
		{"entries into the kernel", []string{"entry_SYSCALL_64_after_hwframe", "asm_exc_page_fault",
			"sysvec_apic_timer_interrupt"},
			[]string{"restore_saved_sigmask", "entry_ip_lookup", "syscall_regfunc",
				"el0_undef_hook", "restore_nameidata"}},
		{"processor mitigations", []string{"srso_alias_return_thunk", "__x86_indirect_thunk_rax",
			"clear_bhb_loop"},
			[]string{"srso_select_mitigation", "retbleed_update", "__x86_set_memory"}},
		{"exits of a guest", []string{"native_write_msr", "vmx_vcpu_run"},
			[]string{"native_flush_tlb_multi", "native_send_call_func_ipi", "kvm_clock_get_cycles",
				"kvm_mmu_zap_all_fast",
				"kvm_wait", "kvm_unmap_gfn_range", "vmx_flush_tlb_all", "xen_send_IPI_mask",
				"hv_flush_tlb_multi", "svm_range_evict"}},
		{"idling", []string{"default_idle", "intel_idle", "delay_tsc"},
			[]string{"acpi_ex_read_data_from_field", "acpi_ec_handle_query", "acpi_os_read_port",
				"cpuidle_reflect_all", "delay_wait_all"}},
		{"reading the clock", []string{"ktime_get", "read_tsc"},
			[]string{"read_hpet", "kvm_clock_get_cycles", "ktime_get_snapshot", "acpi_pm_read",
				"pvclock_clocksource_read"}},
		{"task switches", []string{"finish_task_switch", "update_curr", "pick_next_task_fair"},
			[]string{"update_blocked_averages", "update_cfs_group", "update_sg_lb_stats",
				"update_sd_lb_stats", "update_process_times",
				"schedule_work_on", "pick_link", "enqueue_hrtimer", "enqueue_to_backlog",
				"dequeue_rt_stack", "update_dl_rq_load_avg",
				"schedule_delayed_monitor_work", "dequeue_skb"}},
		{"wake-ups", []string{"try_to_wake_up", "ep_poll_callback", "futex_wake",
			"hrtimer_start_range_ns"},
			[]string{"hrtimer_interrupt", "__hrtimer_run_queues", "complete_walk",
				"complete_signal", "futex_hash", "futex_requeue",
				"wake_up_klogd_work_func", "ep_loop_check_proc", "prepare_to_swait_event",
				"wake_all_kswapds", "hrtimer_run_softirq"}},
		{"memory of processes", []string{"zap_pte_range", "filemap_map_pages", "exit_mmap"},
			[]string{"zap_pid_ns_processes", "unmap_mapping_range", "unmap_hugepage_range",
				"do_fault_around_bytes_set", "zap_threads",
				"free_pgd_reserved"}},
		{"single pages", []string{"get_page_from_freelist", "release_pages", "folio_add_lru",
			"__mod_memcg_lruvec_state"},
			[]string{"lru_add_drain_all", "lru_add_drain_cpu", "free_pcppages_bulk", "rmqueue_bulk",
				"free_uid", "free_irq",
				"folio_referenced", "folio_lruvec_lock_irqsave", "folio_wait_writeback",
				"lru_gen_look_around", "__alloc_contig_pages",
				"__free_one_page", "mod_timer", "__mod_timer", "release_pages_arg",
				"folio_isolate_lru", "__mem_cgroup_flush_stats"}},
		{"small objects", []string{"__slab_free", "kmem_cache_alloc_noprof", "kfree"},
			[]string{"slab_out_of_memory", "kmem_cache_destroy", "kmem_cache_shrink",
				"kfree_rcu_work", "kfree_rcu_monitor",
				"__slab_unmap", "kmalloc_fix_flags", "memcg_slab_show"}},
		{"device registers", []string{"iowrite16", "vp_notify"},
			[]string{"ioread_all_ports", "virtqueue_resize", "virtqueue_detach_unused_buf",
				"iowrite_flush"}},
		{"BPF programs", []string{"bpf_prog_6deef7357e7b4530_count", "bpf_trampoline_6442484327",
			"bpf_get_stackid"},
			[]string{"bpf_lru_pop_free", "bpf_map_free_deferred", "__bpf_lru_list_rotate",
				"bpf_check", "bpf_local_storage_update"}},
	} {
		t.Run(tt.work, func(t *testing.T) {
			for _, name := range tt.has {
				if got := familyOf(name); got != tt.work {
					t.Errorf("%s is of %q, want %q", name, got, tt.work)
				}
			}
			for _, name := range tt.hasNot {
				if got := familyOf(name); got != "" {
					t.Errorf("%s is of %q, want none", name, got)
				}
			}
		})
	}
	if want := len(everydayFamilies()); want != 17 {
		t.Errorf("%d families: each needs its members and counter-examples above", want)
	}
}

// TestFamiliesHaveNoBarePrefix: no exact name makes a longer one everyday, no function is in two
// families, and no function with a known cause is in any.
func TestFamiliesHaveNoBarePrefix(t *testing.T) {
	of := map[string]string{}
	for _, f := range everydayFamilies() {
		for name := range strings.FieldsSeq(f.names) {
			if of[name] != "" {
				t.Errorf("%s is in %s and in %s", name, of[name], f.work)
			}
			of[name] = f.work
			if !f.has(name) || KindOf(name) != Everyday {
				t.Errorf("%s is %q, want everyday", name, KindOf(name))
			}
			for _, longer := range []string{name + "x", name + "_all", name + "_bulk_work"} {
				if everydayNames().exact[longer] == "" && KindOf(longer) != "" &&
					!slices.ContainsFunc(everydayFamilies(), func(f functionFamily) bool {
						return slices.ContainsFunc(f.namespaces, func(p string) bool {
							return strings.HasPrefix(longer, p)
						})
					}) {
					t.Errorf("%s makes %s everyday", name, longer)
				}
			}
		}
		for _, p := range f.namespaces {
			if len(p) < 4 {
				t.Errorf("the namespace %q of %s is too short to be one", p, f.work)
			}
		}
	}
	for name := range TableWalkers() {
		if familyOf(name) != "" {
			t.Errorf("%s walks a table and is everyday", name)
		}
	}
	for name := range CachePurgers() {
		if familyOf(name) != "" {
			t.Errorf("%s purges a cache and is everyday", name)
		}
	}
}
