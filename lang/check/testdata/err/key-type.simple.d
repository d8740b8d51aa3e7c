BEGIN { @[«trace(0)»] = count(); }
