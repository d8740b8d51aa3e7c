BEGIN { trace(«stack(3).depth»); }
