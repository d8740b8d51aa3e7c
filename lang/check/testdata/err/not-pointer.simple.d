BEGIN { x = «*1»; }
