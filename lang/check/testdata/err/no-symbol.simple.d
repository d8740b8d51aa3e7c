BEGIN { trace(«`nosuch»); trace(«`hp_avenrun»[0]); trace(«`utsname».nodename); }
