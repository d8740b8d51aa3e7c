#pragma D option amin=Stable/Stable/Common
BEGIN { trace(«curthread»); }
