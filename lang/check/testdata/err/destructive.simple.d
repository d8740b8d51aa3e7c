BEGIN { «raise(9)»; }
