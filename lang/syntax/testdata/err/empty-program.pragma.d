#pragma D option quiet
/* nothing */
«»