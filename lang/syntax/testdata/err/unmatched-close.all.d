BEGIN { exit(0)«)»; x = 1«]»; }
«}»
END { x = «;» }
