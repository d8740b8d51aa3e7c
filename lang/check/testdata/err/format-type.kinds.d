BEGIN
{
	printf("%d", «execname»);
	printf("%s", «1»);
	printf("%s", «curthread->name»);
	printf("%hd", «1»);
	printf("%lld", «1»);
	printf("%Y", «1»);
	printf("%k", «1»);
	printf("%*d", «execname», 1);
	«printf("%d")»;
	printf("%d", 1, «2»);
	printf(«"%@d"», 1);
	printf("«%»");
	printf(«""»);
	@[1] = count();
	printa(«"%s %@d"», @);
}
