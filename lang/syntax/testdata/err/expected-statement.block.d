BEGIN { «{» exit(0); } }
BEGIN { if (x) «}»
