package capacity

import (
	"strings"
	"testing"
	"time"
)

// TestParseLimit: every row was compared with sbatch -t on Slurm 22.05.8.
func TestParseLimit(t *testing.T) {
	minutes, unlimited := Minutes, NoLimit
	for _, test := range []struct {
		text string
		want Limit
	}{
		{"1", minutes(1)},
		{"60", minutes(60)},
		{"90:00", minutes(90)},
		{"90:30", minutes(91)},
		{"0:1", minutes(1)},
		{"0:59", minutes(1)},
		{"00:90", minutes(2)},
		{"1:30:00", minutes(90)},
		{"1:30:01", minutes(91)},
		{"1:90:90", minutes(152)},
		{"2-00:00:00", minutes(2880)},
		{"2-0", minutes(2880)},
		{"2-", minutes(2880)},
		{"2-1:30", minutes(2970)},
		{"1-0:0:1", minutes(1441)},
		{"365-0", minutes(525600)},
		{"0", unlimited},
		{"0:00", unlimited},
		{"0-0", unlimited},
		{"-1", unlimited},
		{"infinite", unlimited},
		{"UNLIMITED", unlimited},
		{"4294967295", unlimited},
		{"", Limit{}},
		{"Partition_Limit", Limit{}},
		{"NONE", Limit{}},
		{"2982616-04:14:00", Limit{}},
		{"4294967294", Limit{}},
		{"65534", Limit{}},
	} {
		got, err := ParseLimit(test.text)
		if err != nil || got != test.want {
			t.Errorf("ParseLimit(%q) = %+v, %v; want %+v", test.text, got, err, test.want)
		}
	}

	for _, text := range []string{
		"1:",
		":1",
		"1:2:3:4",
		"1-2-3",
		" 5",
		"5m",
		"1::2",
		"--",
		"1-:1",
		"UnLim",
		"-2",
		"+5",
		"99999999999",
		"35791395",
	} {
		if got, err := ParseLimit(text); err == nil {
			t.Errorf("ParseLimit(%q) = %+v, want an error", text, got)
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, seed := range []string{
		"60",
		"1:30:01",
		"2-1:30",
		"UNLIMITED",
		"2982616-04:14:00",
		"9999999999-9999999999:9999999999:9999999999",
	} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, text string) {
		limit, err := ParseLimit(text)
		if err != nil {
			return
		}

		if limit.Bounded() && (limit.Minutes < 1 || limit.Minutes > MaxMinutes) {
			t.Fatalf("ParseLimit(%q) = %d minutes", text, limit.Minutes)
		}

		if back, err := ParseLimit(limit.String()); err != nil || back != limit {
			t.Fatalf("%q is %+v, prints %s, which is %+v (%v)", text, limit, limit, back, err)
		}
	})
}

func TestWall(t *testing.T) {
	most := func(minutes int) Wall { return Wall{MaxWall: Minutes(minutes)} }
	short, nlp := Wall{DefaultQOS: "short"}, most(300)
	w := Walls{
		QOS: map[string]Wall{
			"normal": {},
			"short":  most(60),
			"long":   most(600),
			"over":   {MaxWall: Minutes(700), OverPartition: true},
			"part":   most(120),
		},
		Associations: map[string]Wall{
			"root":        {},
			"nlp":         nlp,
			"nlp|ann":     nlp,
			"|ann":        nlp,
			"nlp|bob":     most(30),
			"nlp|bob|gpu": most(20),
			"vis":         short,
			"vis|bob":     short,
			"|bob":        short,
			"vis|ann":     {},
			"free":        {},
			"free|bob":    {},
			"|cleo":       {},
		},
	}
	w.Trim()

	gpu, cpu, part := Partition{Name: "gpu"}, Partition{Name: "cpu"}, Partition{Name: "gpu", QOS: "part"}
	for _, c := range []struct {
		user, account, qos string
		p                  Partition
		want               int // 0: none
	}{
		{"ann", "nlp", "", gpu, 300},
		{"ann", "", "", gpu, 300},
		{"bob", "nlp", "", cpu, 30},
		{"bob", "nlp", "", gpu, 20},
		{"bob", "", "", gpu, 60},     // vis, and its default QOS
		{"ann", "vis", "", gpu, 0},   // hers is normal
		{"dora", "vis", "", gpu, 60}, // that of the account
		{"bob", "nlp", "long", gpu, 600},
		{"bob", "nlp", "normal", gpu, 20},
		{"bob", "nlp", "long", part, 120}, // the partition's QOS first
		{"bob", "nlp", "over", part, 700},
		{"cleo", "", "", gpu, 0},
		{"", "", "short", gpu, 60},
		{"bob", "gone", "gone", gpu, 0},
	} {
		if got, _ := w.MaxWall(c.user, c.account, c.qos, c.p); got.Minutes != c.want || got.Bounded() != (c.want > 0) {
			t.Errorf("%+v: got %s", c, got)
		}
	}

	if len(w.Associations) != 7 || len(w.QOS) != 4 {
		t.Errorf("what binds is %+v", w)
	}
}

// The limit of a job that states none is one that accounting lets it have.
func TestFitsWithinWall(t *testing.T) {
	for name, c := range map[string]struct {
		req  Request
		wall int
		time int
		min  int
	}{
		"shorter than the window": {wall: 90, time: 90, min: 31},
		"shorter than the floor":  {wall: 10, time: 10, min: 10},
		"stated by the user":      {req: Request{TimeLimit: Minutes(120)}, wall: 90},
	} {
		t.Run(name, func(t *testing.T) {
			snap := twoBlocks(onlyA)

			snap.Walls = Walls{QOS: map[string]Wall{NormalQOS: {MaxWall: Minutes(c.wall)}}}
			c.req.Partitions = []string{"gpu"}
			v := Admit(c.req, snap, noon)
			if v.Refused || v.Edits.TimeLimit.Minutes != c.time || v.Edits.TimeMin.Minutes != c.min {
				t.Errorf("%+v", v)
			}
		})
	}
}

// Where accounting counts what jobs use, a limit that we choose is the floor, and the user is told.
func TestFitsTheFloorWhereUseIsLimited(t *testing.T) {
	metered := Wall{Metered: true}
	associations := map[string]Wall{"nlp": metered, "|ann": metered}
	for name, c := range map[string]struct {
		walls   Walls
		account string
		floor   bool
	}{
		"an account":       {Walls{Associations: associations}, "nlp", true},
		"the default one":  {Walls{Associations: associations}, "", true},
		"another":          {Walls{Associations: associations}, "vis", false},
		"a QOS":            {Walls{QOS: map[string]Wall{NormalQOS: metered}}, "vis", true},
		"nothing is known": {Walls{Unknown: true}, "vis", true},
		"nothing":          {Walls{}, "nlp", false},
	} {
		snap := twoBlocks(onlyA)

		snap.Walls = c.walls
		v := Admit(Request{Partitions: []string{"gpu"}, User: "ann", Account: c.account}, snap, noon)
		told := len(v.Warnings) == 1 && strings.Contains(v.Warnings[0], "limits what you may use over time")
		if v.Refused || (v.Edits.TimeLimit == v.Edits.TimeMin) != c.floor || told != c.floor ||
			v.Edits.TimeMin.Minutes != 31 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// A misspelt key of ours is reported with the right one; a user's own words are left alone.
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
		"on_ned=requeue":                               "on_end",
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
		got := strings.Join(warnMisspelledKeys("words before, "+word), "; ")
		if meant == "" && got != "" || meant != "" && !strings.HasSuffix(got, "did you mean "+meant+"=?") {
			t.Errorf("%s: %q, want %q", word, got, meant)
		}
	}

	for comment, want := range map[string]string{
		"on_end requeue": "on_end in --comment has no value and changes nothing; write on_end=… as one word, " +
			"without spaces",
		"capacity_reservation_id = cr-0123456789abcdef0": "capacity_reservation_id in --comment has no value and " +
			"changes nothing; write capacity_reservation_id=… as one word, without spaces",
		"Instance_Type p5.48xlarge": "Instance_Type in --comment has no value and changes nothing; write " +
			"instance_type=… as one word, without spaces",
		"more capacity, on end": "",
	} {
		v := Admit(Request{Partitions: []string{"gpu"}, TimeLimit: Minutes(60), Comment: comment}, twoBlocks(), noon)
		if got := strings.Join(v.Warnings, "; "); v.Refused || got != want {
			t.Errorf("%q: %q", comment, got)
		}
	}

	v := Admit(
		Request{Partitions: []string{"gpu"}, TimeLimit: Minutes(60), Comment: "Capacity_Reservation_Id=" + blockA.ID},
		twoBlocks(),
		noon,
	)
	if v.Refused || len(v.Warnings) != 1 || v.Edits.Constraint != "[gpu-a|gpu-b]" {
		t.Errorf("the word is told and changes nothing: %+v", v)
	}
}

// Any comment can be read, and its values are well-formed.
func FuzzWish(f *testing.F) {
	f.Add("capacity_reservation_id=cr-0123456789abcdef0 on_end=hold, time=60")
	f.Add("Capacity_Reservation=x id=cr-0123456789abcdef0\n=\x00")
	f.Fuzz(func(t *testing.T, comment string) {
		wish, _ := parseWish(comment)
		if wish.ReservationID != "" && !IsReservationID(wish.ReservationID) ||
			wish.SubnetID != "" && !IsSubnetID(wish.SubnetID) {
			t.Errorf("%+v", wish)
		}

		warnMisspelledKeys(comment)
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
		v := Admit(
			Request{Partitions: []string{"gpu"}, TimeLimit: Minutes(60), Comment: c.comment, Requeue: c.requeue},
			snap,
			noon,
		)
		told := strings.Join(v.Warnings, "; ")
		if v.Refused || c.why == "" && told != "" || !strings.HasSuffix(told, c.why) {
			t.Errorf("%+v: %q", c, told)
		}
	}
}

// A job is told of a signal that would come after its requeue: KillWait and a minute before the fence, to which its
// limit is fitted in whole minutes.
func TestLateSignal(t *testing.T) {
	fitted := Request{Partitions: []string{"gpu"}, Comment: "on_end=requeue", Signal: 149 * time.Second}
	for name, c := range map[string]struct {
		change func(*Request, *Snapshot)
		warned bool
	}{
		"too late":          {func(*Request, *Snapshot) {}, true},
		"in time":           {func(r *Request, _ *Snapshot) { r.Signal = 150 * time.Second }, false},
		"no signal":         {func(r *Request, _ *Snapshot) { r.Signal = 0 }, false},
		"it states a limit": {func(r *Request, _ *Snapshot) { r.TimeLimit = Minutes(60) }, false},
		"with a --time-min": {
			func(r *Request, _ *Snapshot) { r.TimeLimit, r.TimeMin = Minutes(60), Minutes(30) },
			true,
		},
		"it is stopped": {func(r *Request, _ *Snapshot) { r.Comment = "on_end=stop" }, false},
		"it is held":    {func(r *Request, _ *Snapshot) { r.Comment = "on_end=hold" }, true},
		"of the partition": {
			func(r *Request, s *Snapshot) { r.Comment, s.Partitions[0].OnEnd = "", RequeueAtEnd },
			true,
		},
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
		if got := warnLateSignal(req, wish, snap); (got != "") != c.warned ||
			c.warned &&
				!strings.HasSuffix(
					got,
					"ends the job up to 2m30s before it, with TERM: use @150 or more, or catch TERM",
				) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
