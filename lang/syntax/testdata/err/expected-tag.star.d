struct «*»p;
union «;»
enum «int» x;
