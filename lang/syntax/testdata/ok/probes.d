BEGIN, END, ERROR { }
:::entry { trace(1); }
: { }
::: { }
syscall::[a-m]*:entry, syscall::?ead:, syscall::[!x]y\*z:return
/execname == "a/b" && (1/2)/ { }
pid$target:libc.so.6:std?vector*:entry, pid$1::$$2:1c { }
usdt1234:/*nothing*/
{ }
17, 18 { trace(0); }
* { }
fbt:nf_conntrack:foo.isra.0:entry { }
int:::entry { }
tick-1sec,tick-100ms,profile-97hz { }
sdt:net::netif_receive_skb // a comment
/* another */ / *args[0] == 1 && 4 / 2 > 1 / /* and one */ { @ = count() }
a:b /1/;
a:b:c;
syscall:::entry /pid/
;
a*b;
a\:b:c\\:d { }
