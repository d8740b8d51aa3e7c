BEGIN { «self» = 1; trace(«this».x); }
