int *«;»
int«;»
struct s { int«;» };
int x,«;»
enum e { «1» };
