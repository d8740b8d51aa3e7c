BEGIN «/ /» { exit(0); }
