BEGIN { trace(xlate «(»x)); trace(xlate <a_t (x)«)»; trace(xlate <a_t> «x»); }
