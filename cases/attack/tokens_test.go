package main

import "testing"

// A route that nobody has decided on is found by make test, and not only by make attack.
func TestEachRouteIsDecided(t *testing.T) {
	all, err := routes("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if allowedRoles(r) == "" {
			t.Errorf("%s is documented, but its roles are not in the table", r)
		}
	}
	if allowedRoles("POST /api/nothing") != "" {
		t.Error("an unknown route is admitted")
	}
}
