BEGIN { trace(«nosuch»); }
BEGIN { trace(«SOBJ_CV»); }
