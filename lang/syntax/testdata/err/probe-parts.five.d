«syscall:vmlinux:read:entry:0» { exit(0); }
END { x = «;» }
