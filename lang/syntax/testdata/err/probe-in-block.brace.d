BEGIN
{
	exit(0);

«syscall::read:entry»
{
	x = «;»
}

END { x = 1; }
