BEGIN { trace(«10ms»); trace(«1lul»); trace(«0x1g»); }
