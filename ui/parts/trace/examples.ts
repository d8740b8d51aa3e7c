/** Programs to begin with: what each asks, and its text. */
export const examples: readonly { what: string; text: string }[] = [
  {
    what: "bytes that each program reads",
    text: "syscall::read:return\n/arg0 > 0/\n{\n\t@bytes[execname] = sum(arg0);\n}\n",
  },
  {
    what: "latency of reads",
    text: "syscall::read:entry\n{\n\tself->since = timestamp;\n}\n\nsyscall::read:return\n/self->since/\n{\n\t@time[execname] = llquantize(timestamp - self->since, 10, 2, 10, 20);\n\tself->since = 0;\n}\n",
  },
  {
    what: "system calls that fail",
    text: "syscall:::return\n/errno != 0/\n{\n\t@failed[execname, probefunc, errno] = count();\n}\n",
  },
  {
    what: "kernel stacks on the CPUs",
    text: "profile-97\n/arg0/\n{\n\t@[stack()] = count();\n}\n",
  },
  {
    what: "programs that are started",
    text: '#pragma D option quiet\n\nsyscall::execve:entry\n{\n\tprintf("%Y %6d %s\\n", walltimestamp, pid, copyinstr(arg0));\n}\n',
  },
  {
    what: "sizes of writes",
    text: "syscall::write:return\n/arg0 > 0/\n{\n\t@size[execname] = quantize(arg0);\n}\n",
  },
];
