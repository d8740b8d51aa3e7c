BEGIN { trace(«1.5»); trace(«1e9»); trace(«.5»); trace(«1.»); trace(«2.5e-3f»); }
