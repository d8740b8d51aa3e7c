#pragma D option scratchsize=64
BEGIN { x = alloca(«65»); }
