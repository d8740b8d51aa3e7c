BEGIN
{
	«while» (x) { x--; }
	«for» (i = 0; i < 3; i++) { trace(i); }
	«do» { x++; } while (x);
	«return»;
	«switch» (x) { case 1: break; }
	x = «;»
}
