// no types of the kernel are asked for
/* D computes in 64 bits, and cuts where it stores. */
char c; unsigned char uc; short s; unsigned int u; int i; long l; unsigned long ul; uint16_t h;

BEGIN
{
	l = i * i;
	i = l + 1;
	uc = c + 1;
	ul = u + l;
	l = u - i;
	x = u < i;
	y = c < uc;
	z = l < ul;
	l = 5 * 1000000000;
	i = 1 << 40;
	trace(1 << 40);
	trace(c);
	trace(-c);
	trace(~uc);
	trace(!l);
	trace(uc << 9);
	trace(l >> c);
	trace(ul >> 1);
	trace(-7 / 2);
	trace(-7 % 2);
	trace(-7u / 2);
	trace(0xffffffff);
	trace(4294967295);
	trace(0x80000000 + 1);
	trace('a' + 'bc');
	trace((char)300);
	trace((unsigned char)-1);
	trace((uint16_t)i);
	trace(i ? c : l);
	trace(i && c || !u ^^ l);
	trace((i, l));
	trace(sizeof (c) + sizeof (long) + sizeof "hi" + sizeof (string));
	i += 5;
	i <<= 2;
	h -= l;
	i++;
	--h;
	trace(i++ + ++i);
	ul %= 10u;
}
