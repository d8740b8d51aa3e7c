«provider» web { probe request(string); };
BEGIN { x = «;» }
