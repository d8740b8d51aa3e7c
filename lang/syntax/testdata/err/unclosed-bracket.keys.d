BEGIN { @«[»pid = count(); x«[»1; }
