BEGIN { x = «register»; x = «for»; }
int «if»;
