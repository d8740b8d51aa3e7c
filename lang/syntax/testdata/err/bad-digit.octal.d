BEGIN { trace(«0189»); trace(«0b11»); trace(«0x»); }
