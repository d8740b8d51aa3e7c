BEGIN { clear(«1»); }
