BEGIN { printf("«%Q»", 1); }
