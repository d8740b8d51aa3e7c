BEGIN { «pid» = 1; }
