BEGIN { stack(«pid»); }
