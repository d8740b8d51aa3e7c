struct s { int x; }; translator struct s < int n > { x = n; }; BEGIN { x = «xlate <struct s *> (1)»; }
