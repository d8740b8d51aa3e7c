translator struct a *«p» { x = 1; };
translator a_t < b_t *p > «x» = 1;
translator a_t < b_t *p «;»
translator a_t < b_t *p > { x = 1 «}»;
