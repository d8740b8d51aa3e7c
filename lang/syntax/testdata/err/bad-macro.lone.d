BEGIN { trace(«$»); }
