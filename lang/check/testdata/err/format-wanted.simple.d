BEGIN { printf(«pid»); }
