BEGIN { x = «2 * execname»; }
