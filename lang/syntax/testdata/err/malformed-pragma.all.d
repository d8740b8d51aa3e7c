«#pragma D»
«#pragma D option»
#pragma D option quiet «please»
#pragma D option a «= b»
#pragma D option «=3»
«#pragma D attributes x»
BEGIN { exit(0); }
