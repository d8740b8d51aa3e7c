BEGIN «/»pid == 1 { x = «;» }
