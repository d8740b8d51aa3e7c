«#pragme» D option quiet
BEGIN { exit(0); }
«#!/usr/sbin/dtrace» -s
