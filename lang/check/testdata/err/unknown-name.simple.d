BEGIN { trace(«nosuch»); }
