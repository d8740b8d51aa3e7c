struct s «{ }»;
enum e «{}»;
union «{}» x;
