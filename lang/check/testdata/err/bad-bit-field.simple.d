struct s { int x : «33»; }; BEGIN { exit(0); }
