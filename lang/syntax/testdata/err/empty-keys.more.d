int a[«...»];
int b[int, «...»];
