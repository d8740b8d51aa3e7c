BEGIN { x = «~execname»; }
