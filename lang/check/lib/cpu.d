/* declares: cpuinfo_t curcpu chip lgrp pset zonename cwd root */

typedef struct cpuinfo {
	processorid_t cpu_id;
	psetid_t cpu_pset;
	chipid_t cpu_chip;
	lgrp_id_t cpu_lgrp;
} cpuinfo_t;

/* Linux has no processor sets. */
translator cpuinfo_t < int C > {
	cpu_id = C;
	cpu_pset = 0;
	cpu_chip = chip_of(C);
	cpu_lgrp = node_of(C);
};

/* The CPU of a thread: the current or the last one. */
translator cpuinfo_t < struct task_struct *T > {
	cpu_id = T->thread_info.cpu;
	cpu_id = T->cpu;
	cpu_pset = 0;
	cpu_chip = chip_of(T->thread_info.cpu);
	cpu_chip = chip_of(T->cpu);
	cpu_lgrp = node_of(T->thread_info.cpu);
	cpu_lgrp = node_of(T->cpu);
};

inline cpuinfo_t *curcpu = xlate <cpuinfo_t *> (cpu);
inline chipid_t chip = curcpu->cpu_chip;
inline lgrp_id_t lgrp = curcpu->cpu_lgrp;
inline psetid_t pset = 0;

/* Linux has no zones. */
inline string zonename = "global";

inline string cwd = "<unknown>";
inline string root = "<unknown>";
