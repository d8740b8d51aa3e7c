BEGIN { trace(sizeof («)»); x = offsetof(«1», x); }
self «;»
int f(«3»);
