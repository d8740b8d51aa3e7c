#include <unistd.h>
#include <sys/wait.h>
volatile long s;
__attribute__((noinline)) void inner(int n){ for(int i=0;i<n;i++) s+=i; s++; }
__attribute__((noinline)) void seventy(void){ inner(70000000); s++; }
__attribute__((noinline)) void thirty(void){ inner(30000000); s++; }
int main(){ if(fork()==0){ seventy(); thirty(); return 0;} thirty(); seventy(); wait(0); return 0; }
