// no types of the kernel are asked for
inline int LIMIT = 5;
inline int twice[int n] = 2 * n;
inline string both[string a, string b] = strjoin(a, b);
inline uint64_t now = timestamp;

BEGIN
/twice[pid] > LIMIT/
{
	trace(twice[twice[LIMIT]]);
	trace(both[execname, "x"]);
	trace(now - 1);
}
