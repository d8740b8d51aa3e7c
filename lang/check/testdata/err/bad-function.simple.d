typedef int f_t(«void», int); BEGIN { exit(0); }
