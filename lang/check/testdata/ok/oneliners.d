// no types of the kernel are asked for
profile-997 /arg0 && cpu==23/ { @z[stack()] = count(); } tick-60s { exit(0); }
syscall:::entry { @a[execname, probefunc] = count(); }
syscall::read:entry { self->ts = timestamp; }
syscall::read:return /self->ts/ { @b[execname] = quantize(timestamp - self->ts); self->ts = 0; }
syscall::open*:entry { printf("%s %s", execname, copyinstr(arg1)); }
syscall::exec*:return { trace(execname); }
profile-99 /arg1/ { @c[execname, ustack()] = count(); }
profile-101 { @d[cpu] = lquantize(arg0 != 0, 0, 2, 1); }
syscall::write:entry { @e[pid, tid] = sum(arg2); @f = max(args[2]); @g = llquantize(arg2, 10, 0, 6, 20); @h = stddev(arg2); @i = quantize(arg2, 3); }
syscall::read:return { @l["latency"] = quantize((timestamp-self->ts)/1000); }
tick-1s { printa(@b); printa("%s %@d %@d\n", @b, @b); clear(@a); trunc(@a, 10); trunc(@b); normalize(@a, 1000); denormalize(@a); }
END
