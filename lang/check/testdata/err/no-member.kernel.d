BEGIN
{
	trace(curthread->«pdi»);
	trace(«curthread.pid»);
	trace(«curthread->far»->x);
	trace(«((struct nosuch *)arg0)»->x);
	trace(«curthread->parent->comm->x»);
	trace(curthread->table[«3»]);
	trace(curthread->table[2][«4»]);
	trace(*«curthread->name->x»);
	curthread->pid = 1;
	«&(curthread->files[0]->f_bits)»;
}
BEGIN { trace(«((struct taks_struct *)arg0)»->pid); }
BEGIN { trace(curthread->«t_lwp»->lwp_ustack); trace(curthread->«t_cpu»); }
