BEGIN { x = «pid.y»; }
