BEGIN { trace(«`nosuch»); }
