package capacity

import (
	"strings"
	"testing"
	"time"
)

// A word that was meant for us and is none of ours is told, with the key that was
// meant; a user's own words are left alone.
func TestNearKeys(t *testing.T) {
	for word, meant := range map[string]string{
		"Capacity_Reservation_Id=cr-0123456789abcdef0": "capacity_reservation_id",
		"capacity_reservation=cr-0123456789abcdef0":    "capacity_reservation_id",
		"capacity_reservation=block":                   "capacity_reservation_id",
		"capacity-reservation-id=x":                    "capacity_reservation_id",
		"capacity_reservaton_id=x":                     "capacity_reservation_id",
		"id=cr-0123456789abcdef0":                      "capacity_reservation_id",
		"INSTANCE_TYPE=p5.48xlarge":                    "instance_type",
		"instance-type=p5.48xlarge":                    "instance_type",
		"subnet=subnet-0123456789abcdef0":              "subnet_id",
		"subnetid=x":                                   "subnet_id",
		"end=5":                                        "",
		"time=long":                                    "",
		"type=train":                                   "",
		"instance=3":                                   "",
		"job_id=7":                                     "",
		"=cr-0123456789abcdef0":                        "",
		"cr-0123456789abcdef0":                         "",
		"capacity_reservation_id=cr-0123456789abcdef0": "",
		strings.Repeat("x", 500) + "=1":                "",
	} {
		got := strings.Join(nearKeys("words before, "+word), "; ")
		if meant == "" && got != "" || meant != "" && !strings.HasSuffix(got, "did you mean "+meant+"=?") {
			t.Errorf("%s: %q, want %q", word, got, meant)
		}
	}
	for comment, want := range map[string]string{
		"on_end requeue": "on_end in --comment has no value and changes nothing; write on_end=… as one word, without spaces",
		"capacity_reservation_id = cr-0123456789abcdef0": "capacity_reservation_id in --comment has no value and changes nothing; write capacity_reservation_id=… as one word, without spaces",
		"Instance_Type p5.48xlarge":                      "Instance_Type in --comment has no value and changes nothing; write instance_type=… as one word, without spaces",
		"more capacity, on end":                          "",
	} {
		v := Admit(Request{Partitions: []string{"gpu"}, TimeLimit: Minutes(60), Comment: comment}, twoBlocks(), noon)
		if got := strings.Join(v.Warnings, "; "); v.Refused || got != want {
			t.Errorf("%q: %q", comment, got)
		}
	}
	v := Admit(Request{Partitions: []string{"gpu"}, TimeLimit: Minutes(60), Comment: "Capacity_Reservation_Id=" + blockA.ID}, twoBlocks(), noon)
	if v.Refused || len(v.Warnings) != 1 || v.Edits.Constraint != "[gpu-a|gpu-b]" {
		t.Errorf("the word is told and changes nothing: %+v", v)
	}
}

// Any comment is read, and what is chosen by it looks right.
func FuzzWish(f *testing.F) {
	f.Add("capacity_reservation_id=cr-0123456789abcdef0 on_end=hold, time=60")
	f.Add("Capacity_Reservation=x id=cr-0123456789abcdef0\n=\x00")
	f.Fuzz(func(t *testing.T, comment string) {
		wish, _ := parseWish(comment)
		if wish.ReservationID != "" && !IsReservationID(wish.ReservationID) || wish.SubnetID != "" && !IsSubnetID(wish.SubnetID) {
			t.Errorf("%+v", wish)
		}
		nearKeys(comment)
	})
}

// A job that cannot be requeued is accepted, and told that on_end= does nothing for it.
func TestOnEndOfWhatIsNeverRequeued(t *testing.T) {
	for _, c := range []struct {
		requeue Requeue
		off     bool // JobRequeue=0
		comment string
		why     string
	}{
		{RequeueNo, false, "on_end=requeue", "leave that out"},
		{RequeueNo, false, "on_end=hold", "leave that out"},
		{RequeueNo, false, "on_end=stop", ""},
		{RequeueNo, false, "", ""},
		{RequeueNever, false, "on_end=requeue", "jobs of sbatch only"},
		{RequeueUnsaid, true, "on_end=requeue", "JobRequeue=0 in slurm.conf; add --requeue"},
		{RequeueUnsaid, false, "on_end=requeue", ""},
		{"", true, "on_end=requeue", ""},
	} {
		snap := twoBlocks()
		snap.NoRequeue = c.off
		v := Admit(Request{Partitions: []string{"gpu"}, TimeLimit: Minutes(60), Comment: c.comment, Requeue: c.requeue}, snap, noon)
		told := strings.Join(v.Warnings, "; ")
		if v.Refused || c.why == "" && told != "" || !strings.HasSuffix(told, c.why) {
			t.Errorf("%+v: %q", c, told)
		}
	}
}

// A job is told of a signal that would come after its requeue: KillWait and a minute before the fence, to which its limit
// is fitted in whole minutes.
func TestLateSignal(t *testing.T) {
	fitted := Request{Partitions: []string{"gpu"}, Comment: "on_end=requeue", Signal: 149 * time.Second}
	for name, c := range map[string]struct {
		change func(*Request, *Snapshot)
		warned bool
	}{
		"too late":             {func(*Request, *Snapshot) {}, true},
		"in time":              {func(r *Request, _ *Snapshot) { r.Signal = 150 * time.Second }, false},
		"no signal":            {func(r *Request, _ *Snapshot) { r.Signal = 0 }, false},
		"it states a limit":    {func(r *Request, _ *Snapshot) { r.TimeLimit = Minutes(60) }, false},
		"with a --time-min":    {func(r *Request, _ *Snapshot) { r.TimeLimit, r.TimeMin = Minutes(60), Minutes(30) }, true},
		"it is stopped":        {func(r *Request, _ *Snapshot) { r.Comment = "on_end=stop" }, false},
		"it is held":           {func(r *Request, _ *Snapshot) { r.Comment = "on_end=hold" }, true},
		"of the partition":     {func(r *Request, s *Snapshot) { r.Comment, s.Partitions[0].OnEnd = "", RequeueAtEnd }, true},
		"not of the partition": {func(r *Request, _ *Snapshot) { r.Comment = "" }, false},
		"of srun":              {func(r *Request, _ *Snapshot) { r.Requeue = RequeueNever }, false},
		"with --no-requeue":    {func(r *Request, _ *Snapshot) { r.Requeue = RequeueNo }, false},
		"in another's partition": {func(r *Request, s *Snapshot) {
			r.Partitions, r.Comment, s.Partitions[0].OnEnd = []string{"cpu"}, "", RequeueAtEnd
		}, false},
	} {
		req, snap := fitted, &Snapshot{KillWait: Duration{30 * time.Second}, Partitions: []Partition{{Name: "gpu"}}}
		c.change(&req, snap)
		wish, _ := parseWish(req.Comment)
		if got := lateSignal(req, wish, snap); (got != "") != c.warned || c.warned && !strings.HasSuffix(got, "ends the job up to 2m30s before it, with TERM: use @150 or more, or catch TERM") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestHoldNote(t *testing.T) {
	until := time.Date(2026, 11, 21, 20, 30, 5, 0, time.UTC)
	note := HoldNote(until.In(time.FixedZone("", 3600)), "refused on: Monday")
	if want := "pcs-capacity: its owner can release it from 2026-11-21 20:30:05 UTC on: refused on: Monday"; note != want {
		t.Errorf("%q", note)
	}
	if at, rest, ours := ReadHoldNote(note); !ours || !at.Equal(until) || rest != "pcs-capacity: refused on: Monday" {
		t.Errorf("%v %q %t", at, rest, ours)
	}
	for _, other := range []string{"", "mine", "pcs-capacity: refused on: Monday", note[1:], " " + note,
		"pcs-capacity: its owner can release it from 2026-11-21 20:30:05 UTC", "pcs-capacity: its owner can release it from Monday on: x"} {
		if _, _, ours := ReadHoldNote(other); ours {
			t.Errorf("%q is taken for ours", other)
		}
	}
}
