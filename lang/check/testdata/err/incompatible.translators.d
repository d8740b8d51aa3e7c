struct out { int a; char *b; };
translator struct out < int i > { a = i; b = «i»; «c» = 1; };
«translator struct out < int i > { a = i; };»
translator «int» < long l > { };
BEGIN
{
	trace(«xlate <struct out> ("x")».a);
	trace(«xlate <struct out> (1)»);
	x = «xlate <struct out *> (1)»;
	«xlate <struct out> (1)»;
	trace(xlate <struct out> (1).«d»);
	trace(«xlate <struct out> (1)->a»);
	trace(«curpsinfo->pr_pgid»);
	trace(curpsinfo->«pr_nosuch»);
}
