struct s { int x; } y; BEGIN { trace(«stringof(y)»); }
