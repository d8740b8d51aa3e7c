package ir_test

import (
	"fmt"
	"testing"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/lang/ir/irtest"
)

func compile(t testing.TB, text string, o check.Options) *ir.Program {
	t.Helper()
	p, err := irtest.Compile(text, o)
	if err != nil {
		t.Errorf("%s\n%v\n%v", text, err, p)
		return nil
	}
	return p
}

// fire runs all clauses of a text once, as one firing.
func fire(t testing.TB, text string) *irtest.Machine {
	t.Helper()
	p := compile(t, text, check.Options{})
	if p == nil {
		return &irtest.Machine{}
	}
	m := irtest.New(p)
	m.Probe = &check.Probe{ID: 1, Provider: "dtrace", Name: "BEGIN"}
	m.User = []irtest.Segment{{Address: 4096, Data: []byte{1, 2, 3, 4, 2, 5, 4, 5}}}
	m.PID, m.TID, m.Execname, m.CPU = 100, 101, "sh", 3
	var all []int
	for i := range p.Clauses {
		all = append(all, i)
	}
	m.Fire(all...)
	return m
}

func TestPrograms(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`BEGIN { trace(1 + 2); }`, "3"},
		{`BEGIN { x = 5; trace(x); x += 2; trace(x * 3); }`, "5,21"},
		{`BEGIN { x = 5; trace(x++); trace(++x); trace(x--); trace(x); }`, "5,7,7,6"},
		{`int x; BEGIN { x = 5; trace(10 / (x - 5)); trace(1); }`, "DIVZERO:0x0"},
		{`int x; BEGIN { x = 5; trace(10 % (x - 5)); trace(1); } BEGIN { trace(2); }`, "DIVZERO:0x0 2"},
		{`BEGIN { trace(execname); trace(pid); trace(probename); }`, "sh,100,BEGIN"},
		{`BEGIN { a["x", 1] = 3; trace(a["x", 1]); trace(a["x", 2]); a["x", 1] = 0; trace(a["x", 1]); }`, "3,0,0"},
		{`BEGIN { a[1]++; a[1] += 4; a[2]--; trace(a[1]); trace(a[2]); trace(a[3]++); trace(++a[3]); }`, "5,-1,0,2"},
		{`BEGIN { self->a[1] = 3; self->b = "text"; trace(self->a[1]); trace(self->b); }`, "3,text"},
		{`BEGIN { s = "abc"; trace(s == "abc"); trace(s < "abd"); trace(s > ""); trace(s == "ab"); trace(s != execname); }`, "1,1,1,0,1"},
		{`string s; BEGIN { trace(s == ""); trace(s < ""); } BEGIN { trace(s); } BEGIN { s = ""; trace(s == ""); trace(s); }`, "0,1 BADADDR:0x0 1,"},
		{`BEGIN { this->s = strjoin(execname, "-x"); trace(this->s); trace(strlen(this->s)); }`, "sh-x,4"},
		{`BEGIN { x = 1; trace(x ? "yes" : "no it is not"); trace(!x ? execname : "else"); }`, "yes,else"},
		{`BEGIN { x = 3; y = 0; trace(x && y); trace(x || y); trace(x ^^ y); trace(!x); trace(!y); }`, "0,1,1,0,1"},
		{`BEGIN { x = 0; y = x && x++; trace(x); z = 1 || x++; trace(x); }`, "0,0"},
		{`BEGIN { trace(lltostr(-5)); trace(basename("/a/b/")); trace(dirname("/a/b/")); trace(substr("hello", 1, 3)); }`, "-5,b,/a,ell"},
		{`BEGIN { trace(index("hello", "l")); trace(rindex("hello", "l")); trace(index("hello", "z")); trace(strchr("hello", 'l')); trace(strrchr("hello", 'l')); trace(strstr("hello", "el")); }`, "2,3,-1,llo,lo,ello"},
		{`BEGIN { this->a = strtok("a,b,,c", ","); this->b = strtok(NULL, ","); trace(this->a); trace(this->b); trace(strtok(NULL, ",")); trace(strtok(NULL, ",") == NULL); }`, "a,b,c,1"},
		{`BEGIN { trace(strtok(NULL, ",")); }`, "BADADDR:0x0"},
		{`BEGIN { trace(strchr("hello", 'z')); }`, "BADADDR:0x0"},
		{`BEGIN { trace(copyinstr(0)); }`, "BADADDR:0x0"},
		{`BEGIN { trace(*(int *)8); }`, "BADADDR:0x8"},
		{`BEGIN { if (pid == 100) { trace(1); } else { trace(2); } trace(3); }`, "1 3"},
		{`BEGIN { trace(0); if (pid == 1) { trace(1); } else { x = 7; } trace(x); }`, "0 7"},
		{`BEGIN { trace(1); if (pid == 100) { x = 7; } trace(x); }`, "1,7"},
		{`BEGIN /pid == 1 || tid == 101/ { trace(1); } BEGIN /pid == 1 && tid == 101/ { trace(2); } BEGIN /!(pid == 1)/ { trace(3); }`, "1 3"},
		{`struct s { int a; char b; int c : 3; unsigned d : 5; } g; BEGIN { g.a = 5; g.b = 'x'; g.c = -2; g.d = 33; trace(g.a); trace(g.b); trace(g.c); trace(g.d); g.c++; trace(g.c); }`, "5,120,-2,1,-1"},
		{`struct s { int a; int b; }; struct s t[int]; this struct s v; BEGIN { this->v.a = 4; this->v.b = 5; t[1] = this->v; trace(t[1].b); t[1].b = 7; trace(t[1].b); trace(t[1].a); trace(t[2].a); t[1] = 0; trace(t[1].a); }`, "5,7,4,0,0"},
		{`int x[5]; BEGIN { i = 3; x[i] = 7; x[2] = 6; trace(x[3]); trace(x[i - 1]); trace(x[0]); x[i]++; x[i] *= 2; trace(x[i]); }`, "7,6,0,16"},
		{`int x[5]; BEGIN { i = 8; x[i] = 7; trace(1); } BEGIN { i = -1; trace(x[i]); }`, "BADINDEX:0x8 BADINDEX:0xffffffffffffffff"},
		{`struct p { int a; int b; }; BEGIN { this->p = (struct p *)alloca(8); this->p->b = 4; trace(((struct p *)this->p)->b); trace(((struct p *)copyin(4096, 8))->b); trace(((struct p *)copyin(5000, 8))->b); }`, "BADADDR:0x1388"},
		{`struct p { int a; int b; }; BEGIN { trace(((struct p *)copyin(4096, 8))->b); trace(*(char *)copyin(4096, 1)); }`, "84149506,1"},
		{`BEGIN { x = 5; trace(x); y = x > 3 ? (x = 9) : 0; trace(x); if (x == 9) { x = 1; } trace(x); x = 2; trace(x); }`, "5,9,1,2"},
		{`BEGIN { s = "abcdef"; s[2] = 0; trace(s); trace(s == "ab"); a[s] = 1; trace(a["ab"]); s[1] = 'X'; trace(s); s[0]++; trace(s); s[5] = 'z'; trace(s); trace(s == "bX"); }`, "ab,1,1,aX,bX,bX,1"},
		{`BEGIN { this->s = stringof(copyin(4096, 4)); this->n = 2; this->s[this->n] = '\0'; trace(strlen(this->s)); this->s[0] = 'h'; this->s[1] += 'i' - 2; trace(this->s); trace(this->s[1]); }`, "2,hi,105"},
		{`BEGIN { this->s = "abc"; this->n = 300; this->s[this->n] = 'x'; } BEGIN { this->s[-1] = 'x'; } BEGIN { trace(this->s); t = "x"; t[0] = 'y'; trace(t); } string u; BEGIN { u[0] = 'x'; }`, "BADINDEX:0x12c BADINDEX:0xffffffffffffffff abc,y BADADDR:0x0"},
		{`BEGIN { s = "ABC"; trace(s[1]); s = 0; trace(s[1]); }`, "BADADDR:0x1"},
		{`BEGIN { p = (char *)alloca(10); p[0] = 'h'; p[1] = 'i'; p[2] = 0; trace(stringof(p)); trace(strlen(stringof(p))); }`, "hi,2"},
		{`BEGIN { p = (char *)alloca(8); bcopy("hello", p, 6); trace(stringof(p)); }`, "hello"},
		{`BEGIN { p = (char *)alloca(8); p[-1] = 0; trace(1); }`, "BADADDR:0xffffc00000010047"},
		{`this int x[8]; BEGIN { p = (char *)alloca(8); trace(p[-60]); } BEGIN { this->p = &this->x[2]; *this->p = 4; trace(this->x[2]); trace(*this->p); }`, "BADADDR:0xffffc00000010034 4,4"},
		{`BEGIN { sz = 300; p = alloca(sz); trace(1); }`, "NOSCRATCH:0x0"},
		{`BEGIN { trace(htons(0x1234)); trace(ntohl(0x12345678)); trace(getmajor(0x800001)); trace(getminor(0x800001)); }`, "13330,2018915346,8,1"},
		{`BEGIN { this->t = timestamp; this->u = timestamp; trace(this->t == this->u); }`, "1"},
		{`BEGIN { trace(tolower("AbZ")); trace(toupper("abz9")); trace(cleanpath("/a/./b//../c")); trace(strtoll("0x1f", 16)); trace(strtoll("-12abc")); }`, "abz,ABZ9,/a/c,31,-12"},
		{`BEGIN { exit(3); trace(4); }`, "3,4"},
		{`BEGIN { s = "old"; s = copyinstr(8); } BEGIN { trace(s); }`, "BADADDR:0x8 old"},
		{`BEGIN { this->s = speculation(); } BEGIN { speculate(this->s); trace(7); if (pid == 100) { trace(8); } trace(9); } BEGIN { commit(this->s); }`, "1,7 1,8 1,9 1"},
		{`BEGIN { a["k"] = "text"; trace(a["k"]); a["k"] = 0; trace(a["k"]); }`, "BADADDR:0x0"},
		{`BEGIN { a["k"] = "text"; trace(a["k"]); b = a["k"]; trace(b == a["k"]); trace(a["j"] == NULL); }`, "text,1,1"},
		{`BEGIN { x = -1; trace((char)x); trace((unsigned char)x); trace((short)300000); trace((unsigned)x); trace((unsigned long long)x >> 60); trace(x >> 1); }`, "-1,255,-27680,4294967295,15,-1"},
		{`BEGIN { x = 1; trace(x << 31); trace(x << 33); trace(x << 64); }`, "-2147483648,0,1"},
	} {
		m := fire(t, c.text)
		if got := irtest.FormatRecords(m.Program, m.Records); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s\n%v", c.text, got, c.want, m.Program)
		}
	}
}

// TestConditionalAggregations checks that aggregations and actions within ?:, &&, || and the comma
// run as C would run their operands.
func TestConditionalAggregations(t *testing.T) {
	n := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	for _, c := range []struct {
		text string
		want func(c, d bool) (n, m int)
	}{
		{`c ? @n = count() : 1`, func(c, d bool) (int, int) { return n(c), 0 }},
		{`c ? @n = sum(1) : 0`, func(c, d bool) (int, int) { return n(c), 0 }},
		{`(c && d) ? @n["k", execname] = count() : 1`, func(c, d bool) (int, int) { return n(c && d), 0 }},
		{`c && d ? @n[c, d] = quantize(7) : 1`, func(c, d bool) (int, int) { return n(c && d), 0 }},
		{`c ? 1 : (@n = count())`, func(c, d bool) (int, int) { return n(!c), 0 }},
		{`c ? @n = count() : (@m = count())`, func(c, d bool) (int, int) { return n(c), n(!c) }},
		{`c ? (@n = count()) : d ? (@m = count()) : 1`, func(c, d bool) (int, int) { return n(c), n(!c && d) }},
		{`c ? d ? @n = count() : (@m = count()) : 1`, func(c, d bool) (int, int) { return n(c && d), n(c && !d) }},
		{`c ? d ? @n = count() : 1 : (@m = count())`, func(c, d bool) (int, int) { return n(c && d), n(!c) }},
		{`c && (@n = count())`, func(c, d bool) (int, int) { return n(c), 0 }},
		{`c || (@n = count())`, func(c, d bool) (int, int) { return n(!c), 0 }},
		{`c && d && (@n = count())`, func(c, d bool) (int, int) { return n(c && d), 0 }},
		{`c && (d ? @n = count() : (@m = count()))`, func(c, d bool) (int, int) { return n(c && d), n(c && !d) }},
		{`c && (d || (@n = count()))`, func(c, d bool) (int, int) { return n(c && !d), 0 }},
		{`c ? (x = 1, @n = count()) : 1; x == c ? (@m = count()) : 1`, func(c, d bool) (int, int) { return n(c), 1 }},
		{`@n = count(), c ? @m = count() : 1`, func(c, d bool) (int, int) { return 1, n(c) }},
		{`c ? printf("x") : (@n = count())`, func(c, d bool) (int, int) { return n(!c), 0 }},
		{`c ? @n = count() : printf("x")`, func(c, d bool) (int, int) { return n(c), 0 }},
		{`if (c) d ? @n = count() : 1; else @m = count()`, func(c, d bool) (int, int) { return n(c && d), n(!c) }},
	} {
		for _, bits := range []int{0, 1, 2, 3} {
			one, two := bits&1 != 0, bits&2 != 0
			p := compile(
				t, fmt.Sprintf(`int x; BEGIN { c = %d; d = %d; %s; }`, n(one), n(two), c.text),
				check.Options{},
			)
			if p == nil {
				continue
			}
			m := irtest.New(p)
			m.Probe = &check.Probe{ID: 1, Provider: "dtrace", Name: "BEGIN"}
			m.Fire(0)
			got := map[string]int{}
			for i, a := range p.Aggs {
				got[a.Agg.Name] = len(m.Aggs[i])
			}
			if n, o := c.want(one, two); got["n"] != n || got["m"] != o {
				t.Errorf("c %v, d %v: %s\ngot %v, want n %d, m %d", one, two, c.text, got, n, o)
			}
		}
	}
}
