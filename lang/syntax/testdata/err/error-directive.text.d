«#error not for this machine»
BEGIN { exit(0); }
«#pragma D error "stop here"»
