«nosuch:::probe» { exit(0); }
