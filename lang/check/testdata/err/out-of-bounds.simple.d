int x[3]; BEGIN { x[«3»] = 1; }
