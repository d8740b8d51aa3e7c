/usr/bin/tsort </dev/null
/usr/bin/tsort </dev/null
/bin/sh -c "exit 78"
/bin/sh -c "exit 78"
exit 77
