int x «=» 1;
self int y «=» 2, z;
