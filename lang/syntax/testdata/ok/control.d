BEGIN
{
	if (x) y = 1; else y = 2;
	if (x) { } 
	if (x) { trace(1); } else { trace(2) }
	if (x) { trace(1); } else if (y) { trace(2); } else if (z) trace(3); else { }
	if (a) if (b) c(); else d();
	if (a) { if (b) { c(); } } else d();
	if (a) ;
	if (a) b(); c()
}
tick-1s { if (x / 2) exit(0) }
