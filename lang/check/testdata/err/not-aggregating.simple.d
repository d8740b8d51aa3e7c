BEGIN { @a = «strlen("x")»; }
