BEGIN { x = !«execname»; }
