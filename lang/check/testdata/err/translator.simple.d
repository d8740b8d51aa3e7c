struct s { int x; }; translator «int» < struct s *p > { }; BEGIN { exit(0); }
