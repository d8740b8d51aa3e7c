struct point { int x; short y; unsigned flag : 3; } p;
int v[4];
syscall::read:entry { p.x = arg0; p.flag = 5; this->i = (int)arg1 & 3; v[this->i] += 2; trace(v[this->i]); trace(10 / p.x); this->b = (char *)alloca(8); this->b[1] = 'x'; trace(((struct point *)copyin(arg1, sizeof (struct point)))->x); }
BEGIN { this->s = pid > 5 ? "many" : execname; trace(this->s == "many"); trace(strlen(this->s)); this->t = strchr(this->s, 'n'); trace(this->t != NULL ? this->t : "none"); }
