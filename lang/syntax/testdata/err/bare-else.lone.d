BEGIN { if (x) { } y = 1; «else» { exit(0); } }
