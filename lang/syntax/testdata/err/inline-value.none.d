inline int «x»;
inline string «s[int a]»;
