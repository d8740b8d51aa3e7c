syscall:::entry { @[execname] = count(); }
syscall:::entry { @f[probefunc] = count(); }
profile-997 /arg0 && cpu==23/ { @s[stack()] = count(); } tick-60s { exit(0); }
profile-99 /arg1/ { @u[execname, ustack()] = count(); }
profile-101 { @c[cpu] = lquantize(arg0 != 0, 0, 2, 1); }
