BEGIN { printa(«@nosuch»); }
