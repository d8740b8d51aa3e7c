// no types of the kernel are asked for
int declared[int, string];
self string name;
this int x;
uint64_t counts[10];

BEGIN
{
	declared[1, "a"] = 2;
	declared[probename == "BEGIN", execname] += 3;
	implicit["k", pid, 'c'] = timestamp;
	implicit["m", 1, 2]++;
	self->name = execname;
	self->arr[self->name] = "text";
	this->x = declared[1, "a"];
	this->y = this->x ? self->name : "none";
	counts[3] = 7;
	counts[this->x]++;
	trace(counts[3] + counts[this->x]);
	self->name = 0;
	self->arr["x"] = NULL;
	printf("%s %d", this->y, implicit["k", 1, 1]);
}

tick-1s
/late == 0/
{
	late++;
}
