BEGIN
{
	«exit()»;
	x = «strlen("a", "b")»;
	y = «substr("a")»;
	«stack(1, 2)»;
	«trace(1, 2)»;
	@ = «quantize()»;
	«trunc(@q, 1, 2)»;
	z = strjoin(«1», "a");
	tracemem(arg0, «arg1»);
}
