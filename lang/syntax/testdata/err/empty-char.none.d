BEGIN { x = «''»; }
