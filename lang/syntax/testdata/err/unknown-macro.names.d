BEGIN { trace(«$taget»); trace($target); trace(«$1»); }
pid«$$2»::main:entry { }
