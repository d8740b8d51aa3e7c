BEGIN
{
	«foreach» (x in @a) printf("%d", x);
	«unroll» (3) { trace(1); }
	«let» $x = 1;
	«global» count;
	let = 1;
	foreach = let + 1;
	x = «;»
}
