«#pragme» D option quiet
BEGIN { exit(0); }
