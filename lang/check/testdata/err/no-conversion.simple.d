struct s { int x, y; }; translator struct s < int n > { x = n; }; BEGIN { trace(xlate <struct s *> (1)->«y»); }
