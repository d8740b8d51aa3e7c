// no types of the kernel are asked for
BEGIN { ts = 0; n[1] = 0; big = (uint64_t)0; }
tick-1s /ts = 5/ { ts = timestamp; n[2] = timestamp; big = timestamp; ts = 7; }
BEGIN { if (pid) { speculate(1); printf("x"); } else { exit(0); } }
