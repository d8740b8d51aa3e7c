package kernel

import "culprit/kernel/pages"

// ForgetProgram takes the pages of the program's own file out of this process's memory, as far as they can only be read: what
// starting touched - tables of all that is linked in - is most of them, and what runs on comes back from the kernel's cache of the file, where all of
// it stays. A mapping that somebody has written to, as debuggers and uprobes do, is left as it is.
func ForgetProgram() { pages.Forget() }
