int x[3]; BEGIN { «x» = 0; }
