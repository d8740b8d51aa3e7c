BEGIN { x = «;» x = 1 + «;» f(1, «)»; x = (int)«;» x = 1 * «/» 2; x = «int»; x = «)»; }
BEGIN /x ==«/» { }
