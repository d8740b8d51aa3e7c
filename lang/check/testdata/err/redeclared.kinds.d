struct s { int a; char «a»; };
struct «s» { int b; };
enum e { A, «A» };
int «pid»;
inline int «A» = 3;
typedef int t;
typedef string «t»;
struct s2 { struct nosuch «x»; void «v»; int «f(int)»; int b : «40»; string «s : 3»; };
this int «arr[int]»;
BEGIN { exit(0); }
