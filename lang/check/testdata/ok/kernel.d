struct task_struct *t;

BEGIN
{
	t = curthread;
	trace(t->pid);
	trace(t->parent->parent->comm);
	printf("%s %d", t->comm, t->comm[0]);
	trace(stringof(t->name));
	trace(t->name == "x" || t->comm != "y");
	trace((*t->files)->f_bits + (*t->files)->f_more + (*t->files)->f_split);
	trace(t->files[2]->f_owner->pid);
	trace(t->u_long + t->u_byte + t->high);
	trace(t->state == SLEEPING);
	trace(t->table[1][2] + t->table[pid][1]);
	trace(*t->buffer);
	trace(t->hook);
	trace(t->far == 0);
	trace(&t->mm->arg_end);
	trace(sizeof (struct task_struct) + offsetof(struct task_struct, high));
	this->m = ((task_t *)arg0)->mm;
	trace(this->m->arg_start);
	trace(`jiffies);
	trace((struct file *)t->files == NULL);
	@[t->comm, t->parent] = count();
	self->seen[t] = 1;
	printf("%p %x", t, (uintptr_t)t);
	print(t->mm);
	trace(curpsinfo->pr_fname);
	trace(curpsinfo->pr_pid + curlwpsinfo->pr_lwpid);
}
