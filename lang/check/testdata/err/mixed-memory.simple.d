BEGIN { x = (char *)alloca(1); «x» = (char *)50; }
