«»«»// with -xstrsize=1 -xqiet
#pragma D option «bufpolicy=sometimes»
#pragma D option «switchrate=0hz»
#pragma D option «nspec=-1»
#pragma D option «ldpath=/x»
#pragma D option «aggsize=4q»
BEGIN { exit(0); }
