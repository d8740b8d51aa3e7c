BEGIN { x = 1 «2»; printf("a" «"b"»); x «y»; x = (a «b»); }
BEGIN /x «y»/ { x = «;» }
