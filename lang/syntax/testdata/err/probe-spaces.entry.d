syscall::read: «entry» { exit(0); }
BEGIN
«END» { x = «;» }
