typedef int myint;
BEGIN
{
	x = a || b ^^ c && d | e ^ f & g == h != i < j <= k > l >= m << n >> o + p - q * r / s % t;
	x = ((((a * b) + c) << d) < e) == f & g ^ h | i && j ^^ k || l;
	x = a - (b - c) - (d + e); x = a / (b * c);
	x = (a, b), c;
	x = a ? b : c ? d : e; x = (a ? b : c) ? d : (e, f); x = a ? b, c : d;
	x = !a + ~b - -c + +d - - -e * *g & &h; x = -(-a); x = - --a; x = &*p; x = !!a; x = -~!*p;
	x = a++ + ++b; x = (*p)++; x = *p++; x = -a++; x = p->q++; x = a[1]--;
	x = (int)y; x = (char *)p + 1; x = (struct foo *)arg0; x = ((struct sock *)arg0)->__sk_common.skc_dport;
	x = (uint64_t)-1; x = (myint)-1; x = (foo)1; x = (foo *)y; x = (foo)(y); x = (foo) - 1; x = (foo) * bar; x = (foo)~1;
	x = (const volatile unsigned char *)&y; x = (void (*)(int))0; x = (int (*)[3])0; x = (string)y; x = (int)(long)z; x = (unsigned)x++;
	x = sizeof (int); x = sizeof x; x = sizeof (x) + 1; x = sizeof (struct foo); x = sizeof (char[10]); x = sizeof (*p).q; x = sizeof (uint8_t) * 2; x = sizeof (foo *); x = sizeof sizeof -x;
	x = stringof(p); x = stringof p->q; x = stringof (p)->q; x = stringof stringof "a"; x = (stringof(p))[1];
	x = offsetof(struct foo, bar); x = offsetof(foo_t, bar.baz);
	x = xlate <psinfo_t> (p); x = xlate <psinfo_t *>(p)->pr_pid; x = xlate < struct foo * > (a, b);
	x = `jiffies; x = vmlinux`jiffies + nfsd`nfsd_serv->x; x = &`init_task; x = `a[1].b;
	x = args[0]->dev->name; x = args[1]->self.this->string.int->if; x = curthread->mm->pgd; x = fds[0].fi_pathname;
	x = $1 + $$1 + $target + $$target; x = self->$1; x = p->$2;
	x = 'a' + '\n' + '\'' + '"' + '\0' + '\377' + '\x1f' + 'ab' + 'abcdefgh' + '\\';
	x = "a\tb\n\"q\" \\ \a\b\f\r\v\0 \101\x41 \q ü '"; x = "";
	x = 0 + 1 + 017 + 0xFf + 0X1 + 1u + 1l + 1UL + 1lu + 1ll + 0xFFFFFFFFFFFFFFFFull + 18446744073709551615 + 1LLU;
	x = @; x = (1).x; x = "abc"[1]; x = f()->g; x = f(1)[2]; x = (a, b)[c, d]; x = ((a)); x = (a)->b; x = (a)[1];
	x = (a = b) + (c += d); y = x = z ? a : (b = c); f(a = b, c ? d : e, (g, h)); m[a = b, (c, d)] = 1;
	x = self->a && this->b; self->a = this->b = 0; (x); ((struct foo *)x)->y = 1; *(int *)x = 1; ((int)x);
	printf("%d", x), trace(y); stack(); ustack(5); printa("%@d", @a); printa(@a, @b);
	a /* c */ = // d
	b
}
BEGIN / (x / y) / z / { x = a / b; x /= c; }
BEGIN /x == '/' || "/" == y / 2/ {}
END /x?y:z/ { trace(x) }
