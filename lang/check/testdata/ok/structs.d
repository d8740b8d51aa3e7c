// no types of the kernel are asked for
typedef unsigned int word;
enum color { RED, GREEN = 5, BLUE };
struct inner { char tag; word w : 5; word v : 27; long big; };
struct outer {
	struct inner in[2];
	union { int i; char b[4]; };
	struct outer *next;
	enum color color;
};
struct outer o;
self struct inner si;
struct inner byname[int];

BEGIN
{
	o.in[1].w = 3;
	o.in[1].v += 1;
	o.i = 0x01020304;
	trace(o.b[2]);
	o.color = BLUE;
	trace(o.next->next->in[0].tag);
	self->si = o.in[0];
	byname[3] = o.in[1];
	trace(byname[3].big);
	byname[3] = 0;
	p = (struct outer *)alloca(sizeof (struct outer));
	p->in[0].big = 9;
	p->in[p->i].tag = 'x';
	(p + 1)->i = 5;
	trace(p - (struct outer *)0);
	trace(offsetof(struct outer, color) + sizeof (o.in));
	print(&o.in[0]);
	tracemem(p, 16);
	tracemem(p, 16, o.i);
}
