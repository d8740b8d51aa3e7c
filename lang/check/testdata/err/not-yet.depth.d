profile-97 { v = stack(3); v.depth = «arg0»; v.depth = «"2"»; trace(«v.depth»); }
