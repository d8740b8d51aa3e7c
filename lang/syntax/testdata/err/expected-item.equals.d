BEGIN { exit(0); }
«=» x;
END { }
«)»
END { x = «;» }
