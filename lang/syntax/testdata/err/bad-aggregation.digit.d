BEGIN { «@1st» = count(); }
