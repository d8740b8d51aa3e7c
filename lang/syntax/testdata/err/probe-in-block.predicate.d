BEGIN { x = 1;
«syscall::*:entry» /pid == 1/ { x = 2; }
BEGIN { y = 1;
«END» { }
