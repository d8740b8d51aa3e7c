struct s { int x; }; BEGIN { trace(((struct s *)0)->«y»); }
