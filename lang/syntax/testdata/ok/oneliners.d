#!/usr/sbin/dtrace -s
/* One line each, as they are typed. */
profile-997 /arg0 && cpu==23/ { @[stack()] = count(); } tick-60s { exit(0); }
FN:entry{@[stack()]=count();}
FN:entry{self->t = timestamp;} FN:return/self->t/{@=avg(timestamp-self->t);} tick-30s{printa("average: %@d nsn", @);trunc(@);}
fbt::FN:entry { self->t = timestamp; } fbt::FN:return /self->t/ { @["latency"] = quantize((timestamp-self->t)/1000); self->t = 0; }
syscall:::entry { @[execname] = count(); }
syscall:::entry { @[probefunc] = count(); }
syscall::read:entry { self->ts = timestamp; } syscall::read:return /self->ts/ { @[execname] = quantize(timestamp - self->ts); self->ts = 0; }
syscall::read:return { @[execname] = quantize(arg0); }      syscall::open*:entry { printf("%s %s", execname, copyinstr(arg1)); }
syscall::exec*:return { trace(execname); }      proc:::exec-success { trace(curpsinfo->pr_psargs); }
profile-99 /arg1/ { @[execname, ustack()] = count(); }      profile-101 { @[cpu] = lquantize(arg0 != 0, 0, 2, 1); }
sched:::off-cpu { self->ts = timestamp; } sched:::on-cpu /self->ts/ { @[execname, stack()] = sum(timestamp - self->ts); self->ts = 0; }
io:::start { @[args[1]->dev_statname, execname] = sum(args[0]->b_bcount); }     io:::start { @s = quantize(args[0]->b_bcount); }
tcp:::accept-established { @[args[3]->tcps_raddr] = count(); }      tcp:::send { @[args[2]->ip_daddr] = sum(args[2]->ip_plength); }
tcp:::connect-request { @[args[2]->ip_daddr, args[4]->tcp_dport] = count(); }      ip:::receive { @[args[2]->ip_saddr] = count(); }
sdt:net::netif_receive_skb { @[stringof(args[0]->dev->name)] = sum(args[0]->len); }
sdt:irq::softirq_entry { self->t = timestamp; } sdt:irq::softirq_exit /self->t/ { @[cpu, arg0] = sum(timestamp - self->t); self->t = 0; }
lockstat:::adaptive-block { @[stack()] = sum(arg1); }      vminfo:::maj_fault { @[execname] = count(); }
pid$target::malloc:entry { @ = quantize(arg0); }      pid$target:a.out::entry { @[probefunc] = count(); }
BEGIN { printf("%d %s\n", 1 << 3, "x"); exit(0); }      tick-1s { printa(@); clear(@); }      END { trunc(@, 10); }
syscall:::entry{@[execname,probefunc]=count();}
profile-997 /arg0 && cpu==1/ {@[stack()]=count();} tick-60s {exit(0);}
