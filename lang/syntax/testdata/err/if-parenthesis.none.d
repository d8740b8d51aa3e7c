BEGIN { if «x» { exit(0); } }
