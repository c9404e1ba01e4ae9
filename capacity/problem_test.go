package capacity

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Problems go through JSON as sentences and as values.
func TestSaidThroughJSON(t *testing.T) {
	var said Said
	host := Problemf(HostFailed, Subject{Partition: "gpu", Reservation: "cr-0"}, "open a case", "%d hosts have failed", 1)
	ended := Problemf(ReservationEnded, Subject{}, "", "cr-9 has ended")
	never := Problemf(NeverStarts, Subject{Job: "7"}, "", "job 7 can never start")
	said.Add(ended, never, host, host)
	text, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	var back Said
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Problem{host, never, ended}, back.All()); diff != "" {
		t.Error(diff)
	}
}

// Each code stands once in the table, with a line that says what it means.
func TestCodes(t *testing.T) {
	seen := map[Code]bool{}
	for _, m := range Codes {
		if seen[m.Code] || m.Text == "" || m.Severity != m.Code.Severity() {
			t.Errorf("%+v", m)
		}
		seen[m.Code] = true
	}
	if Code("").Severity() != Admin {
		t.Error("an unknown code needs an administrator")
	}
}
