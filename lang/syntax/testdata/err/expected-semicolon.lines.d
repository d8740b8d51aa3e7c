BEGIN
{
	x = 1«»
	trace(x)«»
	@ = count();
	x++«»
	exit(0)
}
