/* Every mistake is told once, however often what it spoilt is used. */
«syscall::raed:entry» { exit(0); }

BEGIN
{
	x = «nosuch» + 1;
	y = x * 2;
	@[nosuch] = count();
	self->start = «timestmp»;
	this->d = timestamp - self->start;
	printf("%d %d\n", this->d, «self->strat»);
	printf("%s", «pid»);
	@c = «cuont()»;
	printa(«@cc»);
}
