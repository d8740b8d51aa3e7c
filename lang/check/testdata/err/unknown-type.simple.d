BEGIN { trace(sizeof («nosuch_t»)); }
