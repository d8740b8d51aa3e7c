BEGIN
«{»
	exit(0);
