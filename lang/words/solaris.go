package words

import (
	"os"
	"strconv"
)

// A way is what a script of Solaris or FreeBSD may write on Linux in place of a name.
type way struct {
	names string // separated by " | "
	hint  string
}

const (
	objects = "Linux does not record what kind of object a thread waits for; " +
		"stack() at sched:::off-cpu shows it"
	states = "the state of a thread is curlwpsinfo->pr_state: SRUN, SSLEEP, SONPROC"
)

// variables are kernel variables of Solaris.
//
// table: never changed
var variables = []way{
	{"utsname | hw_provider", "on Linux: `init_uts_ns.name.nodename, .release, .machine"},
	{"hp_avenrun | avenrun", "on Linux: `avenrun, in units of 1/2048"},
	{"freemem | availrmem | physmem | physinstalled | pages_locked | nswapped | k_anoninfo | " +
		"swapfs_minfree | swapfs_reserve | maxmem",
		"Linux has no such variable; culprit mem and culprit stat memory.size have these amounts"},
	{"_pagesize | pagesize | _pageshift", "on Linux it is a constant: " +
		strconv.Itoa(os.Getpagesize()) + " bytes a page"},
	{"mpid | nproc | max_nprocs", "Linux has no such variable; culprit stat sched.forks counts " +
		"new processes, process.state those that exist"},
	{"lbolt | lbolt64 | hz | nsec_per_tick", "use timestamp, in nanoseconds"},
	{"p0 | kas", "on Linux the first process is `init_task"},
	{"ncpus | ncpus_online | cpu_list", "culprit stat cpu.time by cpu lists the CPUs"},
	{"devnamesp | rootvfs | rootdir", "Linux has no such variable; the arguments of io:::start " +
		"have the device in args[1]->dev_statname"},
	{"cv_sobj_ops | mutex_sobj_ops", objects},
}

// constants are constants of Solaris's and FreeBSD's headers.
//
// table: never changed
var constants = []way{
	{"SOBJ_NONE | SOBJ_MUTEX | SOBJ_RWLOCK | SOBJ_CV | SOBJ_SEMA | SOBJ_USER | SOBJ_USER_PI | " +
		"SOBJ_SHUTTLE", objects},
	{"PR_ISSYS", "Linux: kernel threads have curthread->mm == NULL"},
	{"TDS_INACTIVE | TDS_INHIBITED | TDS_CAN_RUN | TDS_RUNQ | TDS_RUNNING | TS_RUN | TS_SLEEP | " +
		"TS_ONPROC | TS_ZOMB", states},
	{"BIO_READ", "use args[0]->b_flags & B_READ"},
	{"BIO_WRITE", "use args[0]->b_flags & B_WRITE"},
}

// translated are members of FreeBSD's structs where Linux has those of DTrace's translators, and
// members of Solaris's kernel structs that have no counterpart in Linux's.
//
// table: never changed
var translated = []way{
	{"bio_cmd", "use b_flags & B_READ"},
	{"bio_bcount | bio_length", "use b_bcount"},
	{"bio_dev | bio_disk", "args[1]->dev_statname is the name of the device"},
	{"bio_offset | bio_pblkno", "use b_blkno, in blocks of 512 bytes"},
	{"td_name | p_comm", "use pr_fname of args[1], a psinfo_t, or execname"},
	{"td_tid", "use pr_lwpid"},
	{"td_proc | p_pid", "use pr_pid of args[1], a psinfo_t, or pid"},
	{"td_state", states},
	{"t_cpu", "the number of the CPU is the variable cpu"},
	{"t_pri", "the priority is curlwpsinfo->pr_pri"},
	{"t_lwp", "Linux has one struct for a thread; the registers of the program are uregs[]"},
	{"cpu_disp | disp_nrunnable", "the length of run queues: culprit trace runqlen"},
	{"cpu_info", "Linux has the types of CPUs in /proc/cpuinfo"},
}

// Variable returns what to write for a kernel variable of Solaris; "" if it is not in the table.
func Variable(name string) string { return find(variables, name) }

// Constant returns what to write for a constant of Solaris or FreeBSD; "" if it is not in the
// table.
func Constant(name string) string { return find(constants, name) }

// Translated returns what to write for a member of a struct of Solaris or FreeBSD that Linux's has
// under no other name; "" if it is not in the table.
func Translated(name string) string { return find(translated, name) }

func find(table []way, name string) string {
	for _, w := range table {
		if has(w.names, name) {
			return w.hint
		}
	}
	return ""
}
