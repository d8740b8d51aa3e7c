syscall::read:entry { a[pid, execname] = timestamp; n[tid]++; self->w[arg0] = 1; }
syscall::read:return /a[pid, execname]/ { @ = sum(timestamp - a[pid, execname]); a[pid, execname] = 0; total[execname] += arg0; s["k"] = copyinstr(arg1); trace(s["k"]); }
syscall::read:entry { self->s = stack(3); st[tid] = ustack(4); @st[self->s, st[tid]] = count(); self->s = 0; st[tid] = 0; }
