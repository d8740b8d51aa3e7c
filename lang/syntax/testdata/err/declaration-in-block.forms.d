BEGIN { «int» x; «self» int y; «struct» foo *z; «const» char *s; x = 1; }
