/* gives: cpuinfo_t curcpu pset zonename cwd root */

typedef struct cpuinfo {
	processorid_t cpu_id;
	psetid_t cpu_pset;
	chipid_t cpu_chip;
	lgrp_id_t cpu_lgrp;
} cpuinfo_t;

/* Linux has no sets of processors. */
translator cpuinfo_t < int C > {
	cpu_id = C;
	cpu_pset = 0;
};

/* The CPU of a thread: where it runs, or ran last. */
translator cpuinfo_t < struct task_struct *T > {
	cpu_id = T->thread_info.cpu;
	cpu_id = T->cpu;
	cpu_pset = 0;
};

inline cpuinfo_t *curcpu = xlate <cpuinfo_t *> (cpu);
inline psetid_t pset = 0;

/* Nor has it zones. */
inline string zonename = "global";

inline string cwd = "<unknown>";
inline string root = "<unknown>";
