int x«»
BEGIN { x = «;» }
struct s { int a«»
 int b; };
int y «{» };
END { x = «;» }
