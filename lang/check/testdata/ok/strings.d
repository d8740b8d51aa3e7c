// no types of the kernel are asked for
BEGIN
{
	s = strjoin(execname, "!");
	trace(strlen(s) + index(s, "x") + rindex(s, "x", 3));
	trace(substr(s, 1) == "a" || substr(s, 1, 2) < s);
	trace(basename(dirname("/a/b/c")));
	trace(s[0]);
	trace(s + 2);
	trace(lltostr(-5) >= lltostr(5, 16));
	trace(strtok(s, ","));
	trace(toupper(tolower(strchr(strstr(cleanpath(s), "b"), 'b'))));
	trace(strtoll("12", 8) + progenyof(pid) + htons(1) + ntohll(2));
	trace((string)copyin(arg0, 8));
	trace(stringof(copyin(arg0, 8)));
	trace(copyinstr(arg0, 8));
	bcopy("abc", copyin(arg0, 8), 3);
	trace(s == NULL ? 1 : 0);
	trace("a" == "a");
	trace("a" < "b" ? "less" : "more");
	printf("%-10s|%5d|%*d|%c|%p|%Y|%k|%a\n", s, 1, 4, 2, 'x', arg0, walltimestamp, stack(3), caller);
}
