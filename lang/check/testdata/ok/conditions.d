// no types of the kernel are asked for
BEGIN
{
	if (pid == 1) {
		trace("one");
		@[execname] = count();
	} else if (pid == 2) {
		y = 1;
	} else
		stack();
	exit(y == 3);
}

tick-1s /z = 1/ { ustack(5); }

BEGIN { at[1] = stack(); at[1] = 0; @s[at[1]] = count(); }

BEGIN { pid == 1 ? printf("one") : 1; pid == 2 ? trace("two") : pid == 3 ? trace("three") : stack(); }
