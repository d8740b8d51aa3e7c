BEGIN { @a = count(); «@a»; }
