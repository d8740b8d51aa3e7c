BEGIN { x = «strlen()»; }
