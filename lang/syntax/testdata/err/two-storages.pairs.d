self «static» int x;
extern «typedef» int y;
