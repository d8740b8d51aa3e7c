«{» exit(0); }
«/»pid == 1/ { exit(1); }
BEGIN«,» { exit(0); }
«,» END { }
BEGIN { x = «;» }
