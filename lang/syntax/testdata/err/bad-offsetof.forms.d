BEGIN { trace(offsetof(struct s«)»); trace(offsetof «s»); }
