BEGIN { trace(«sizeof (void)»); }
