syscall::read:entry { a[pid, execname] = timestamp; n[tid]++; self->w[arg0] = 1; }
syscall::read:return /a[pid, execname]/ { @ = sum(timestamp - a[pid, execname]); a[pid, execname] = 0; total[execname] += arg0; s["k"] = copyinstr(arg1); trace(s["k"]); }
