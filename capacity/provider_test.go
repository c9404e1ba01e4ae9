package capacity

import "testing"

func TestProviders(t *testing.T) {
	for _, c := range []struct {
		of                                  Provider
		known, launches, configures, guests bool
	}{
		{ProviderEC2, true, true, false, false},
		{ProviderPCS, true, false, true, false},
		{ProviderNone, true, false, false, true},
		{"", false, false, false, false},
		{"gcp", false, false, false, false},
	} {
		if c.of.Known() != c.known || c.of.Launches() != c.launches || c.of.Configures() != c.configures || c.of.Guest() != c.guests {
			t.Errorf("%q: known %t, launches %t, configures %t, guest %t", c.of, c.of.Known(), c.of.Launches(), c.of.Configures(), c.of.Guest())
		}
		r := SlurmReservation{Name: "pcs-capacity-fence-gpu", Users: []string{"root"}, Flags: append(c.of.GuardFlags(), "SPEC_NODES")}
		if !r.Ours() || r.Maintenance() == c.guests {
			t.Errorf("%q: %+v", c.of, r)
		}
	}
	plain := SlurmReservation{Name: "pcs-capacity-fence-gpu", Users: []string{"root"}, Flags: []string{"IGNORE_JOBS", "SPEC_NODES"}}
	if plain.Ours() {
		t.Errorf("%+v", plain)
	}
}
