BEGIN { «prinf»("x"); }
