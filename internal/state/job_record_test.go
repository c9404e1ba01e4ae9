package state

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// A new version goes on with what the one before it has kept: limits that it lowered, and requeues that it began.
func TestJobRecordsOfTheVersionBefore(t *testing.T) {
	const before = `{
		"1": {"restarts": 2, "fit": true, "up_to": 90, "saw": 60, "set": 80, "started": true},
		"2": {"on_end": "hold", "told": 15, "ends": 3, "ended_at": 9},
		"3": {"cut": 180, "from": 240},
		"4": {"cut": 180, "from": -1},
		"5": {"ending": true, "release": true},
		"6": {"ending": true}
	}`

	want := map[string]JobRecord{
		"1": {
			Restarts: 2,
			Wanted:   Wanted{Fit: true, Minutes: 90},
			Seen:     Seen{SeenMinutes: 60, SetMinutes: 80, Started: true},
		},
		"2": {Wanted: Wanted{OnEnd: capacity.HoldAtEnd}, WarnedMinutes: 15, FenceRequeues: 3, LastFence: 9},
		"3": {Cut: &Cut{Minutes: 180, Own: capacity.Minutes(240)}},
		"4": {Cut: &Cut{Minutes: 180}},
		"5": {Ending: &Ending{Release: true}},
		"6": {Ending: &Ending{}},
	}

	dir := Dir(t.TempDir())
	if err := dir.WritePrivate(jobRecordsFile, []byte(before)); err != nil {
		t.Fatal(err)
	}

	read := func() map[string]JobRecord {
		t.Helper()

		records, err := dir.JobRecords().Read()
		if err != nil {
			t.Fatal(err)
		}

		return records
	}

	if diff := cmp.Diff(want, read()); diff != "" {
		t.Error(diff)
	}

	if err := os.Remove(dir.PrivatePath(jobRecordsFile)); err != nil {
		t.Fatal(err)
	}

	if err := dir.JobRecords().Save(want); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(want, read()); diff != "" {
		t.Errorf("written and read again: %s", diff)
	}
}
