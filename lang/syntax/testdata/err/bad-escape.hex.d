BEGIN { trace("a«\x»yz"); trace("«\777»"); trace("«\x123»"); }
