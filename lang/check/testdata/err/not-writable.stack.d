profile-97 { v = stack(3); «v.pid» = 3; }
