BEGIN { trace(stack(3).addrs[«arg0»]); }
