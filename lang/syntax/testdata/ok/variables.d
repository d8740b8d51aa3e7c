#pragma D option quiet
#pragma D option strsize=1k
 #pragma D option aggsortkeypos="2"
#pragma D attributes Stable/Stable/Common provider x provider
#pragma D depends_on module unix
#pragma D depends_on library "a b.d"
#pragma GCC diagnostic ignored
#ident "1.1"
# 1 "file.d"
# a comment
int x, *y, z[10];
self int t;
this string s;
this char *p, buf[64];
unsigned long long big;
int counts[string, int, char *];
uint64_t by_pid[pid_t, uint32_t];
struct task_struct *who;
struct nfsd`svc_rqst *rq;
struct point { int x, y; unsigned flags : 3, : 0, more : 5; union { char c; void *p; }; struct point *next; char name[16]; } origin, *points;
union u { int a; float b; };
enum color { RED, GREEN = 1 << 3, BLUE, };
enum color paint;
typedef unsigned int word_t, *wordp;
typedef struct point pt;
typedef int (*handler)(int, const char *, ...);
typedef int matrix[3][4];
typedef void (*(*deep)(void (*)(int)))[2];
extern int f(void), g(...), h(int, ...); extern e; self ix, iy, iz; this ik; self is[int];

static volatile int v; const char *const cc; char * const * volatile q;
signed char sc; unsigned char uc; short int si; unsigned short us; long unsigned int ul; long double ld; _Bool b; double d; long long ll;
bio_t *bio;
loff_t off;
inline int LIMIT = 5 * 60;
inline string NAME = "n";
inline int twice[int n, string s] = n * 2;
translator psinfo_t < struct task_struct *T > { pr_pid = T->tgid; pr_fname = stringof(T->comm); pr_x = T == 0 ? 1 : 2; };
BEGIN {
	return(0); return (1);
	#pragma D option zdefs
	x = 1; x += 2; x -= 3; x *= 4; x /= 5; x %= 6; x &= 7; x |= 8; x ^= 9; x <<= 1; x >>= 2;
	x++; ++x; x--; --x; self->t++; this->p = 0;
	counts["a", 1, 0] = 2; by_pid[pid, 1u]++;
	a = b = c;
	*y = 3; y[0] = 4; y->z = 5; origin.x = 6;
	@[1, "a", stack(5)] = count(); @a["x"] = sum(1); @b = llquantize(x, 10, 0, 9, 20);
	;;
}
