BEGIN { x = y «?» 1; x = (y «?» 2); }
