BEGIN { x = «'a; }»
