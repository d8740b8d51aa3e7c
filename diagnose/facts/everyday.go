package facts

import (
	"slices"
	"strings"
	"sync"
)

// everydayFamilies returns families of kernel functions whose time says nothing of a cause: they
// take what programs ask for, on machines that are well too. A name is of a family if it is listed
// exactly or lies in one of the family's namespaces. A namespace is a prefix that the kernel or a
// compiler keeps for just these functions, such as bpf_prog_ for programs of BPF. A shared first
// word makes no family: update_curr is bookkeeping of each switch, update_blocked_averages walks
// all cgroups.
//
// Names are of Linux 5.10 to 6.18, x86-64 and arm64.
func everydayFamilies() []functionFamily {
	return []functionFamily{
		copyingFamily(), clearingFamily(), checksumFamily(), cipherFamily(), compressionFamily(),
		entryFamily(), mitigationFamily(), hypervisorFamily(), idleFamily(), clockFamily(),
		switchFamily(), wakeupFamily(), faultFamily(), pageFamily(), slabFamily(), deviceFamily(),
		bpfFamily(),
	}
}

// functionFamily is a set of kernel functions that do one kind of work.
type functionFamily struct {
	work       string   // "copying"
	names      string   // exact names, parted by white space
	namespaces []string // prefixes that belong to this family alone
}

// has reports whether a function, without what compilers add to its name, is of the family.
func (f functionFamily) has(function string) bool {
	for _, prefix := range f.namespaces {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return slices.Contains(strings.Fields(f.names), function)
}

// everydayIndex finds the work of a function without a look at each name.
type everydayIndex struct {
	exact      map[string]string
	namespaces map[string]string
}

// everydayNames indexes everydayFamilies, once: rules ask for each function on each CPU.
// table: made of constants at the first call, never changed
var everydayNames = sync.OnceValue(func() everydayIndex {
	x := everydayIndex{exact: map[string]string{}, namespaces: map[string]string{}}
	for _, f := range everydayFamilies() {
		for name := range strings.FieldsSeq(f.names) {
			x.exact[name] = f.work
		}
		for _, prefix := range f.namespaces {
			x.namespaces[prefix] = f.work
		}
	}
	return x
})

// familyOf returns the work of the family that a function is of; "" if it is of none.
func familyOf(function string) string {
	x := everydayNames()
	if work, ok := x.exact[function]; ok {
		return work
	}
	for prefix, work := range x.namespaces {
		if strings.HasPrefix(function, prefix) {
			return work
		}
	}
	return ""
}

// copyingFamily copies between programs and the kernel, and within it. It lacks copy_page_range and
// what else fork does for a large process.
func copyingFamily() functionFamily {
	return functionFamily{work: "copying", names: `
		rep_movs_alternative copy_user_generic copy_user_generic_string copy_user_generic_unrolled
		copy_user_enhanced_fast_string copy_user_fast_string __copy_user_nocache
		__copy_user_flushcache copy_mc_fragile copy_mc_enhanced_fast_string copy_mc_generic
		copy_mc_to_user _copy_mc_to_iter raw_copy_to_user raw_copy_from_user __arch_copy_to_user
		__arch_copy_from_user __copy_from_user_inatomic_nocache copyin copyout
		_copy_to_user _copy_from_user _copy_to_iter _copy_from_iter _copy_from_iter_full
		_copy_from_iter_nocache _copy_from_iter_flushcache copy_page_to_iter copy_page_from_iter
		copy_page_from_iter_atomic copy_folio_from_iter_atomic copy_page_to_iter_nofault
		copy_page copy_page_rep copy_page_regs __pi_copy_page copy_highpage copy_user_highpage
		copy_subpage copy_user_large_folio
		copy_from_user_nofault copy_to_user_nofault
		memcpy __memcpy memcpy_orig memcpy_erms __pi_memcpy __pi___memcpy memcpy_fromio memcpy_toio
		memmove __memmove __pi_memmove memcpy_from_iter memcpy_to_iter memcpy_and_pad
		csum_and_copy_to_iter csum_and_copy_from_iter csum_and_copy_from_iter_full
		csum_and_copy_to_user csum_and_copy_from_user csum_partial_copy_generic
		csum_partial_copy_nocheck csum_partial_copy_from_user csum_partial_copy_to_user
		skb_copy_bits skb_copy_datagram_iter skb_copy_datagram_from_iter skb_copy_and_csum_bits
		skb_copy_and_hash_datagram_iter skb_copy_and_csum_datagram_msg __skb_datagram_iter
		simple_copy_to_iter
		__get_user_1 __get_user_2 __get_user_4 __get_user_8 __get_user_nocheck_1
		__get_user_nocheck_2 __get_user_nocheck_4 __get_user_nocheck_8 __get_user_handle_exception
		__put_user_1 __put_user_2 __put_user_4 __put_user_8 __put_user_nocheck_1
		__put_user_nocheck_2 __put_user_nocheck_4 __put_user_nocheck_8
		strncpy_from_user strnlen_user iov_iter_advance iov_iter_revert
		iov_iter_copy_from_user_atomic iov_iter_fault_in_readable fault_in_readable
		fault_in_iov_iter_readable fault_in_writeable fault_in_iov_iter_writeable`}
}

// clearingFamily clears memory that programs ask for, and makes random bytes.
func clearingFamily() functionFamily {
	return functionFamily{work: "clearing memory", names: `
		read_zero read_iter_zero read_null write_null read_iter_null write_iter_null
		get_random_bytes _get_random_bytes get_random_bytes_user get_random_u8 get_random_u16
		get_random_u32 get_random_u64 urandom_read urandom_read_iter
		clear_page clear_page_rep clear_page_erms clear_page_orig __pi_clear_page clear_pages
		clear_huge_page clear_gigantic_page clear_subpage clear_user_page clear_user_highpage
		clear_highpage clear_contig_highpages
		clear_user __clear_user __arch_clear_user clear_user_erms clear_user_rep_good
		clear_user_original rep_stos_alternative
		memset __memset memset_orig memset_erms __pi_memset __pi___memset memset_io
		kernel_init_pages kernel_init_free_pages folio_zero_user folio_zero_segments
		folio_zero_range zero_user_segments iov_iter_zero`}
}

// checksumFamily computes sums over data that programs have sent or stored.
func checksumFamily() functionFamily {
	return functionFamily{work: "checksums", names: `
		csum_partial do_csum __pi_do_csum csum_partial_ext csum_ipv6_magic ip_compute_csum
		ip_fast_csum __skb_checksum skb_checksum skb_checksum_help __skb_checksum_complete
		csum_block_add_ext warn_crc32c_csum_update crc_t10dif_update crc_t10dif_generic
		crc_t10dif_arch crc_t10dif_pcl crc_pcl crc_itu_t crc_ccitt crc16 crc64_be
		crc64_rocksoft_update
		__crc32c_le __crc32c_le_shift libcrc32c crypto_shash_update xor_blocks
		siphash_1u64 siphash_2u64 siphash_3u64 siphash_4u64 siphash_1u32 siphash_3u32
		__siphash_aligned __siphash_unaligned __hsiphash_aligned __hsiphash_unaligned`,
		namespaces: []string{"crc32_", "crc32c_", "crc64_nvme_", "xxh32", "xxh64", "raid6_",
			"xor_avx",
			"xor_sse_", "xor_arm64_", "xor_8regs_", "xor_32regs_"}}
}

// cipherFamily encrypts, decrypts and hashes data that programs have sent or stored.
func cipherFamily() functionFamily {
	return functionFamily{work: "encryption", names: `
		curve25519_generic curve25519_ever64 ghash_update ghash_setkey
		clmul_ghash_mul clmul_ghash_update gf128mul_4k_lle gf128mul_lle`,
		namespaces: []string{"sha1_transform", "sha1_block", "sha1_ni_", "sha1_ce_",
			"__sha1_transform",
			"sha256_transform", "sha256_block", "sha256_ni_", "sha256_ce_", "__sha256_block",
			"sha512_transform", "sha512_block", "sha512_ce_", "__sha512_block", "blake2s_compress",
			"blake2b_compress", "md5_transform", "aes_encrypt", "aes_decrypt", "_aesni_", "aesni_",
			"aes_gcm_", "aes_xts_", "aes_ctr_", "aes_cbc_", "__aes_", "neon_aes_", "ce_aes_",
			"chacha_block_", "chacha_4block_", "chacha_2block_", "chacha_crypt_", "chacha_permute",
			"poly1305_block", "poly1305_emit", "poly1305_core_", "pmull_ghash_", "pmull_gcm_"}}
}

// compressionFamily packs and unpacks data that programs have stored.
func compressionFamily() functionFamily {
	return functionFamily{work: "compression", names: `
		inflate_fast inflate_table zlib_inflate zlib_deflate zlib_adler32 deflate_fast deflate_slow
		deflate_stored longest_match fill_window compress_block`,
		namespaces: []string{"LZ4_", "lz4_compress", "lz4_decompress", "lzo1x_", "lzorle1x_",
			"ZSTD_",
			"HUF_", "FSE_", "HIST_count", "zstd_compress", "zstd_decompress", "zlib_tr_"}}
}

// entryFamily is the way into the kernel and out of it.
func entryFamily() functionFamily {
	return functionFamily{work: "entries into the kernel", names: `
		entry_SYSCALL_64 entry_SYSCALL_64_after_hwframe entry_SYSCALL_64_safe_stack
		entry_SYSRETQ_unsafe_stack entry_SYSRETQ_end entry_SYSCALL_compat
		entry_SYSCALL_compat_after_hwframe entry_SYSENTER_compat
		entry_SYSENTER_compat_after_hwframe entry_INT80_compat
		asm_common_interrupt asm_call_irq_on_stack asm_call_sysvec_on_stack asm_int80_emulation
		do_syscall_64 do_fast_syscall_32 do_int80_emulation do_int80_syscall_32 x64_sys_call
		ia32_sys_call syscall_enter_from_user_mode syscall_enter_from_user_mode_prepare
		syscall_exit_to_user_mode syscall_exit_to_user_mode_prepare syscall_exit_work
		syscall_trace_enter syscall_return_via_sysret syscall_fast_exit
		exit_to_user_mode_prepare exit_to_user_mode_loop irqentry_enter irqentry_exit
		irqentry_enter_from_user_mode irqentry_exit_to_user_mode irqentry_nmi_enter
		irqentry_nmi_exit error_entry error_return sync_regs paranoid_entry paranoid_exit
		swapgs_restore_regs_and_return_to_usermode restore_regs_and_return_to_kernel
		restore_regs_and_return_to_usermode restore_fpregs_from_fpstate restore_all_kernel
		ret_from_fork ret_from_fork_asm ret_from_exception ret_to_user ret_to_kernel
		common_interrupt common_interrupt_return native_irq_return_iret native_iret
		handle_softirqs __do_softirq
		el0_svc el0_svc_common el0t_64_sync el0t_64_sync_handler el0t_64_irq el0t_64_irq_handler
		el1h_64_sync el1h_64_sync_handler el1h_64_irq el1h_64_irq_handler el0_interrupt
		el1_interrupt el0_da el0_ia el1_abort el0_sync el0_irq el1_sync el1_irq invoke_syscall
		do_el0_svc`,
		namespaces: []string{"asm_exc_", "asm_sysvec_", "sysvec_", "__sysvec_"}}
}

// mitigationFamily is what the kernel does on its ways in and out against leaks of processors.
func mitigationFamily() functionFamily {
	return functionFamily{work: "processor mitigations", names: `
		srso_return_thunk srso_alias_return_thunk srso_safe_ret srso_alias_safe_ret
		srso_untrain_ret srso_alias_untrain_ret retbleed_return_thunk retbleed_untrain_ret
		zen_untrain_ret entry_untrain_ret entry_ibpb write_ibpb its_return_thunk
		call_depth_return_thunk clear_bhb_loop __x86_return_thunk __x86_return_skl
		__fill_return_buffer`,
		namespaces: []string{"__x86_indirect_"}}
}

// hypervisorFamily is where a guest leaves for its hypervisor, and a hypervisor runs its guests.
func hypervisorFamily() functionFamily {
	return functionFamily{work: "exits of a guest", names: `
		native_write_msr native_read_msr native_write_msr_safe native_apic_mem_write
		native_apic_mem_eoi native_apic_msr_eoi native_apic_msr_write native_x2apic_icr_write
		native_irq_enable native_irq_disable pv_native_irq_enable pv_native_irq_disable
		pv_native_write_cr2 pv_native_set_pte kvm_guest_apic_eoi_write
		xen_hypervisor_callback xen_hypercall_sched_op xen_safe_halt xen_irq_enable_direct
		xen_hypercall_event_channel_op xen_hypercall_set_timer_op hv_do_hypercall hv_apic_eoi_write
		vmx_vcpu_run vmx_vmexit vmx_vcpu_enter_exit __vmx_vcpu_run vmx_spec_ctrl_restore_host
		svm_vcpu_run svm_vcpu_enter_exit __svm_vcpu_run __svm_sev_es_vcpu_run vcpu_run
		vcpu_enter_guest kvm_arch_vcpu_ioctl_run __kvm_vcpu_run __guest_enter __guest_exit`}
}

// idleFamily is an idle CPU, and time that passes by itself.
func idleFamily() functionFamily {
	return functionFamily{work: "idling", names: `
		default_idle default_idle_call native_safe_halt pv_native_safe_halt native_halt
		acpi_idle_enter acpi_idle_do_entry acpi_idle_enter_bm acpi_safe_halt
		acpi_processor_ffh_cstate_enter intel_idle intel_idle_irq intel_idle_ibrs
		intel_idle_xstate intel_idle_hlt intel_idle_s2idle mwait_idle mwait_idle_with_hints
		cpu_idle_poll cpuidle_enter cpuidle_enter_state cpuidle_idle_call poll_idle do_idle
		cpu_startup_entry arch_cpu_idle cpu_do_idle
		delay_tsc delay_halt delay_halt_tpause delay_halt_mwaitx delay_loop __delay
		__const_udelay __udelay __ndelay`}
}

// clockFamily reads a clock that costs next to nothing. It lacks read_hpet, acpi_pm_read and
// kvm_clock_get_cycles: where a machine spends its time in them, its clock is slow.
func clockFamily() functionFamily {
	return functionFamily{work: "reading the clock", names: `
		read_tsc native_sched_clock sched_clock sched_clock_cpu ktime_get ktime_get_ts64
		ktime_get_real_ts64 ktime_get_raw_ts64 ktime_get_with_offset ktime_get_coarse_ts64
		ktime_get_coarse_real_ts64 ktime_get_coarse_with_offset ktime_get_mono_fast_ns
		ktime_get_real_seconds ktime_get_seconds`}
}

// switchFamily goes from one task to the next. Interrupts are on again in finish_task_switch. It
// lacks what balances CPUs and groups.
func switchFamily() functionFamily {
	return functionFamily{work: "task switches", names: `
		finish_task_switch __switch_to __switch_to_asm __switch_to_xtra switch_mm
		switch_mm_irqs_off switch_fpu_return prepare_task_switch __schedule schedule
		schedule_idle schedule_timeout schedule_hrtimeout_range schedule_hrtimeout_range_clock
		schedule_preempt_disabled preempt_schedule preempt_schedule_common preempt_schedule_irq
		preempt_schedule_notrace
		enqueue_task enqueue_task_fair enqueue_entity dequeue_task dequeue_task_fair
		dequeue_entity dequeue_entities pick_next_task pick_next_task_fair pick_next_entity
		pick_task_fair pick_eevdf put_prev_entity put_prev_task_fair set_next_entity
		update_curr update_rq_clock update_load_avg update_min_vruntime update_se`}
}

// wakeupFamily wakes tasks and sets the timers with which they sleep. On a guest, a wake-up on
// another CPU waits for the hypervisor. It lacks what runs timers: hrtimer_interrupt and
// __hrtimer_run_queues.
func wakeupFamily() functionFamily {
	return functionFamily{work: "wake-ups", names: `
		try_to_wake_up ttwu_do_activate ttwu_do_wakeup ttwu_queue_wakelist ttwu_stat
		__wake_up __wake_up_common __wake_up_common_lock __wake_up_sync_key __wake_up_locked_key
		__wake_up_bit wake_up_q wake_up_process wake_up_state wake_up_bit wake_q_add
		wake_q_add_safe autoremove_wake_function default_wake_function woken_wake_function
		pollwake prepare_to_wait prepare_to_wait_event prepare_to_wait_exclusive complete
		complete_all swake_up_locked
		hrtimer_start_range_ns hrtimer_try_to_cancel hrtimer_cancel hrtimer_active
		hrtimer_init hrtimer_setup hrtimer_init_sleeper hrtimer_sleeper_start_expires
		hrtimer_wakeup
		ep_poll ep_poll_callback ep_send_events ep_autoremove_wake_function do_epoll_wait
		do_futex futex_wait futex_wake __futex_wait futex_wait_setup futex_wait_queue
		futex_wait_queue_me futex_q_lock futex_q_unlock futex_unqueue futex_wake_mark
		futex_do_wait`}
}

// faultFamily maps and unmaps a process's own memory.
func faultFamily() functionFamily {
	return functionFamily{work: "memory of processes", names: `
		handle_mm_fault __handle_mm_fault handle_pte_fault do_anonymous_page do_fault
		do_read_fault do_cow_fault do_wp_page wp_page_copy filemap_map_pages filemap_fault
		filemap_map_folio_range next_uptodate_folio next_uptodate_page set_pte_range do_set_pte
		alloc_anon_folio vma_alloc_folio vma_alloc_folio_noprof
		zap_pte_range zap_present_ptes unmap_page_range unmap_vmas exit_mmap free_pgtables
		free_pgd_range free_pages_and_swap_cache free_swap_cache
		folio_add_new_anon_rmap folio_remove_rmap_ptes folio_add_file_rmap_ptes
		folio_remove_rmap_pte folio_add_anon_rmap_ptes page_remove_rmap page_add_file_rmap
		page_add_new_anon_rmap`}
}

// pageFamily allocates and frees pages for programs, one or a few at a time. It lacks what
// goes to the zone's own lists in bulk, under its lock: free_pcppages_bulk, rmqueue_bulk.
func pageFamily() functionFamily {
	return functionFamily{work: "single pages", names: `
		get_page_from_freelist rmqueue __rmqueue_pcplist __alloc_pages __alloc_pages_noprof
		__alloc_pages_nodemask __alloc_frozen_pages_noprof __folio_alloc __folio_alloc_noprof
		alloc_pages_mpol alloc_pages_mpol_noprof alloc_pages_vma
		free_unref_page free_unref_page_list free_unref_page_commit free_unref_folios
		free_unref_page_prepare free_frozen_pages __free_frozen_pages __free_pages free_pages
		free_page_and_swap_cache release_pages folios_put_refs __folio_put folio_add_lru
		folio_add_lru_vma folio_batch_move_lru folio_batch_add_and_move lru_add lru_add_fn
		lru_gen_add_folio lru_cache_add __pagevec_lru_add_fn pagevec_lru_move_fn
		folio_mark_accessed folio_unlock folio_wait_bit
		try_charge try_charge_memcg charge_memcg __mem_cgroup_charge mem_cgroup_charge
		__mem_cgroup_uncharge __mem_cgroup_uncharge_list __mem_cgroup_uncharge_folios
		mod_memcg_lruvec_state mod_memcg_state __mod_memcg_lruvec_state __mod_memcg_state
		__mod_lruvec_state __mod_lruvec_page_state __mod_node_page_state __mod_zone_page_state
		__lruvec_stat_mod_folio lruvec_stat_mod_folio`}
}

// slabFamily allocates and frees small objects.
func slabFamily() functionFamily {
	return functionFamily{work: "small objects", names: `
		___slab_alloc __slab_alloc __slab_free slab_post_alloc_hook slab_pre_alloc_hook
		slab_free_hook kmem_cache_alloc kmem_cache_alloc_noprof kmem_cache_alloc_node
		kmem_cache_alloc_node_noprof kmem_cache_alloc_lru kmem_cache_alloc_lru_noprof
		kmem_cache_alloc_bulk kmem_cache_alloc_bulk_noprof kmem_cache_alloc_trace
		kmem_cache_alloc_from_sheaf_noprof
		kmem_cache_free kmem_cache_free_bulk
		kmalloc_trace kmalloc_node_trace kmalloc_reserve kmalloc_size_roundup kmalloc_slab
		__kmalloc __kmalloc_noprof __kmalloc_node __kmalloc_node_noprof __kmalloc_cache_noprof
		__kmalloc_cache_node_noprof __kmalloc_node_track_caller
		__kmalloc_node_track_caller_noprof __kmalloc_track_caller __kmem_cache_alloc_node
		__kmem_cache_free kfree kfree_skbmem
		memcg_slab_post_alloc_hook memcg_slab_free_hook __memcg_slab_post_alloc_hook
		__memcg_slab_free_hook __memcg_kmem_charge_page`}
}

// deviceFamily writes to devices of a guest. Each write is an exit to the hypervisor.
func deviceFamily() functionFamily {
	return functionFamily{work: "device registers", names: `
		iowrite8 iowrite16 iowrite32 iowrite64 iowrite16be iowrite32be ioread8 ioread16 ioread32
		ioread64 ioread16be ioread32be vp_notify vp_notify_with_data vm_notify virtqueue_notify
		virtqueue_kick virtqueue_kick_prepare virtqueue_add_split virtqueue_add_packed
		virtqueue_add_sgs virtqueue_add_outbuf virtqueue_add_inbuf virtqueue_add_inbuf_ctx
		virtqueue_add_outbuf_premapped virtqueue_add_inbuf_premapped virtqueue_get_buf
		virtqueue_get_buf_ctx virtqueue_get_buf_ctx_split virtqueue_get_buf_ctx_packed
		virtqueue_enable_cb virtqueue_enable_cb_delayed virtqueue_disable_cb
		virtqueue_enable_cb_prepare`}
}

// bpfFamily is BPF programs and their helpers: culprit datasets and bpftool show their cost.
func bpfFamily() functionFamily {
	return functionFamily{work: "BPF programs", names: `
		__bpf_prog_enter __bpf_prog_exit __bpf_prog_enter_recur __bpf_prog_exit_recur
		__bpf_prog_enter_sleepable __bpf_prog_exit_sleepable bpf_trace_run1 bpf_trace_run2
		bpf_trace_run3 bpf_trace_run4 bpf_trace_run5 bpf_trace_run6 bpf_ktime_get_ns
		bpf_ktime_get_boot_ns bpf_get_current_comm bpf_get_current_pid_tgid bpf_get_stackid
		bpf_get_stack bpf_probe_read_kernel bpf_probe_read_user bpf_probe_read_kernel_str
		bpf_probe_read_user_str bpf_perf_event_output bpf_ringbuf_output bpf_ringbuf_reserve
		bpf_ringbuf_submit bpf_map_lookup_elem bpf_map_update_elem bpf_map_delete_elem`,
		namespaces: []string{"bpf_prog_", "bpf_trampoline_", "bpf_dispatcher_"}}
}
