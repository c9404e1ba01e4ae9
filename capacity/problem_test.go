package capacity

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Problems go through JSON as sentences and as values; what an older version wrote has sentences only.
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
	var old Said
	if err := json.Unmarshal([]byte(`{"problems":["1 hosts have failed; open a case"],"notes":["cr-9 has ended"]}`), &old); err != nil {
		t.Fatal(err)
	}
	want := []Problem{{Severity: Admin, Sentence: "1 hosts have failed; open a case"}, {Severity: Note, Sentence: "cr-9 has ended"}}
	if diff := cmp.Diff(want, old.All()); diff != "" {
		t.Error(diff)
	}
	if old.Add(host); len(old.All()) != 2 {
		t.Errorf("the same sentence twice: %v", old.All())
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
