struct a {
	int x;
}«»
struct b { int y; };
enum e { A }«»
union u { int x; };
BEGIN { x = «;» }
