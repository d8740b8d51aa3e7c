BEGIN { x[1]«(»2); «`printk»("x"); f(1)«(»2); x->y«(»); }
