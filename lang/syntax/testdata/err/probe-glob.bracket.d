syscall::«[»op:entry { exit(0); }
syscall::x«\» { }
