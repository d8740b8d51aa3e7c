BEGIN { printf("%d", «execname»); }
