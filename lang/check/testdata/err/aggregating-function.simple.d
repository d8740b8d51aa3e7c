BEGIN { «count()»; }
