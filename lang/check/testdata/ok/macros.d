// with 12 name -xstrsize=16 -w
#pragma D option quiet
#pragma D option aggsize=4m
#pragma D option switchrate=10hz
syscall::read:entry
/pid == $target || pid == $1 || execname == $$2/
{
	name = $1 + $pid;
	trace($2);
	raise(9);
	system("kill %d", pid);
	setopt("quiet", "no");
	sym(arg0);
	@[ufunc(arg1), mod(caller)] = count();
	freopen("/tmp/%s", execname);
	trace(sizeof (string));
}
