BEGIN { x = «&pid»; }
