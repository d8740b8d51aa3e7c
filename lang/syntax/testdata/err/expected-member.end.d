BEGIN { trace(curthread->«)»; trace(x.«.»y); self->«5» = 1; }
