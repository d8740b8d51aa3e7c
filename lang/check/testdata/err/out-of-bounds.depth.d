profile-97 { v = stack(3); v.depth = «-1»; v.depth = 0; v.depth = 1000; v.depth = «0x7fffffff»; }
