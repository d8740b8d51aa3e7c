«probe kernel.function("vfs_read").return» { printf("%s\n", execname()) }
«kernel.function("vfs_read")» { x = 1; }
«probe timer.s(5)» { exit(); }
«probe begin» { x = 1; }
«p:mine do_sys_open filename=+0(%si):string»
