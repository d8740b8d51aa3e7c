BEGIN
{
	a[1, "x"] = 1;
	a[«"x"», 1] = 2;
	«a[1]» = 3;
	«a» = 4;
	@b[1] = count();
	@b[«"x"»] = count();
	«@b[1, 2]» = count();
	«@b[1] = sum(1)»;
	self->c[execname] = 1;
	self->c[«1»] = 1;
	trace(«a»);
}
