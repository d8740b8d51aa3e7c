enum e { «A = 0x100000000» }; BEGIN { exit(0); }
