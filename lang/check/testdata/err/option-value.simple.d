#pragma D option «strsize=lots»
BEGIN { exit(0); }
