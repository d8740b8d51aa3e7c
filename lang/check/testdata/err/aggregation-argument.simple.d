BEGIN { @a = sum(«execname»); }
