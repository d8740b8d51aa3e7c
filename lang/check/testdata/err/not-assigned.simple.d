BEGIN { trace(«self->x»); }
