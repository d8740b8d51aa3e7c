inline «self» int z = 1;
int f(«static» int x);
struct s { «extern» int x; };
«register» int y;
«auto» z;
