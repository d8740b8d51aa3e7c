BEGIN { trace(«“»hello”); }
