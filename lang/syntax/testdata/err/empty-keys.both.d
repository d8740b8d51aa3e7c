BEGIN { @«[]» = count(); x«[ ]» = 1; }
