«#include» <linux/fs.h>
«#define» X 1
BEGIN
{
«#ifdef» X
	exit(X);
«#endif»
}
