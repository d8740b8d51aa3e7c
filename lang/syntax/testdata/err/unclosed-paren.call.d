BEGIN { exit«(»0; }
BEGIN { if «(»x { y = 1; } }
BEGIN /«(»x == 1/ { y = «;» }
