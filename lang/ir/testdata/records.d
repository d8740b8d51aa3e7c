syscall::read:entry { self->ts = timestamp; } syscall::read:return /self->ts/ { @[execname] = quantize(timestamp - self->ts); self->ts = 0; }
syscall::open:entry { printf("%s %s", execname, copyinstr(arg1)); }
syscall::execve:return { trace(execname); }
BEGIN { printf("%d %s\n", 1 << 3, "x"); exit(0); }
tick-1s { printa(@); clear(@); }
END { trunc(@, 10); }
syscall::read:entry /pid == 12 && execname == "sh"/ { trace(1); if (arg2 > 100) { trace(arg2); x = arg2; } stack(); }
