// no types of the kernel are asked for
struct in { int a; char name[8]; };
struct out { long sum; string text; int left; };
struct in v;
struct out r;
translator struct out < struct in i > { sum = i.a * 2; };
translator struct out < struct in *p > { sum = p->a; text = p->name; };
inline struct out *first = xlate <struct out *> ((struct in *)arg0);

BEGIN
{
	trace(xlate <struct out> (v).sum);
	trace(xlate <struct out *> (v)->sum);
	r = xlate <struct out> (v);
	trace(first->text);
	trace(first->text == "x");
	trace(first != NULL);
	trace(NULL == first);
}
