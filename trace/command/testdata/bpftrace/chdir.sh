cd /
cd /tmp
cd /
cd /proc
cd /tmp
cd /
