package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a job that is too long gets where its partition shortens: gpu has 47 h 20 min left, and 71 h 20 min in the block
// that follows. Where want is nil, it gets what Admit says.
func TestAdmitNew(t *testing.T) {
	const tenDays = 10 * 24 * 60
	gets := func(says string, minutes int, more ...string) *Verdict {
		return &Verdict{Code: OK, Warnings: append([]string{says}, more...), Edits: Edits{TimeLimit: Minutes(minutes), TimeMin: Minutes(31)}}
	}
	const says = "--time=10-00:00:00 does not fit partition gpu; the job gets 2-23:20:00"
	second := func(change func(*Partition)) func(*Snapshot) { // a partition big beside gpu, with block B alone
		return func(s *Snapshot) {
			onlyA(s)
			p := twoBlocks().Partitions[0]
			p.Name, p.TooLong = "big", ShortenTooLong
			p.Groups[0].Slots = p.Groups[0].Slots[1:]
			change(&p)
			s.Partitions = append(s.Partitions, p)
		}
	}
	both := []string{"gpu", "big"}
	for name, c := range map[string]struct {
		req    Request
		change func(*Snapshot)
		want   *Verdict
	}{
		"too long":                   {Request{TimeLimit: Minutes(tenDays)}, nil, gets(says, 4280)},
		"with a comment":             {Request{TimeLimit: Minutes(tenDays), Comment: "night run"}, nil, gets(says, 4280)},
		"unlimited":                  {Request{TimeLimit: NoLimit}, nil, gets("--time=UNLIMITED does not fit partition gpu; the job gets 2-23:20:00", 4280)},
		"by a minute":                {Request{TimeLimit: Minutes(4281)}, nil, gets("--time=2-23:21:00 does not fit partition gpu; the job gets 2-23:20:00", 4280)},
		"fits":                       {Request{TimeLimit: Minutes(4280)}, nil, nil},
		"no limit":                   {Request{}, nil, nil},
		"the default partition":      {Request{Partitions: []string{}, TimeLimit: Minutes(tenDays)}, func(s *Snapshot) { s.DefaultPartition = "gpu" }, gets(says, 4280)},
		"too long even so":           {Request{TimeLimit: Minutes(tenDays), TimeMin: Minutes(5000)}, nil, nil},
		"a --time-min of none":       {Request{TimeLimit: Minutes(tenDays), TimeMin: NoLimit}, nil, gets(says, 4280)},
		"the partition refuses":      {Request{TimeLimit: Minutes(tenDays)}, func(s *Snapshot) { s.Partitions[0].TooLong = RefuseTooLong }, nil},
		"less than min_time":         {Request{TimeLimit: Minutes(tenDays)}, func(s *Snapshot) { s.Partitions[0].MinTime = minutes(4281) }, nil},
		"just min_time":              {Request{TimeLimit: Minutes(tenDays)}, func(s *Snapshot) { s.Partitions[0].MinTime = minutes(4280) }, &Verdict{Code: OK, Warnings: []string{says}, Edits: Edits{TimeLimit: Minutes(4280), TimeMin: Minutes(4280)}}},
		"accounting allows less":     {Request{TimeLimit: Minutes(tenDays)}, func(s *Snapshot) { s.Walls.QOS = []QOSWall{{Name: NormalQOS, MaxWall: Minutes(29)}} }, nil},
		"MaxTime":                    {Request{TimeLimit: Minutes(tenDays)}, func(s *Snapshot) { s.Partitions[0].MaxTime = Minutes(60) }, gets("--time=10-00:00:00 does not fit partition gpu; the job gets 01:00:00", 60)},
		"not strict":                 {Request{TimeLimit: Minutes(tenDays)}, lenient, gets(says, 4280)},
		"old news":                   {Request{TimeLimit: Minutes(tenDays)}, func(s *Snapshot) { stale(s); s.TimeMinCollapses = true }, gets(says, 4280, "what pcs-capacity knows is 1h old (is `pcs-capacity sync --watch` running?): the job may start with only 00:31:00 and is raised once sync runs")},
		"too large":                  {Request{TimeLimit: Minutes(tenDays), Nodes: 9}, nil, nil},
		"too large, not strict":      {Request{TimeLimit: Minutes(tenDays), Nodes: 9}, lenient, nil},
		"both shorten":               {Request{Partitions: both, TimeLimit: Minutes(tenDays)}, second(func(*Partition) {}), gets("--time=10-00:00:00 does not fit partition gpu,big; the job gets 2-23:20:00", 4280)},
		"one refuses":                {Request{Partitions: both, TimeLimit: Minutes(tenDays)}, second(func(p *Partition) { p.TooLong = "" }), nil},
		"one takes it":               {Request{Partitions: both, TimeLimit: Minutes(3000)}, second(func(*Partition) {}), nil},
		"one is too small":           {Request{Partitions: []string{"big", "gpu"}, TimeLimit: Minutes(tenDays), Nodes: 2}, second(func(p *Partition) { p.Groups[0].MaxNodes = 1 }), gets("--time=10-00:00:00 does not fit partition big,gpu; the job gets 1-23:20:00", 2840)},
		"Slurm may run it elsewhere": {Request{Partitions: []string{"gpu", "cpu"}, TimeLimit: Minutes(tenDays), Comment: "capacity_reservation_id=" + blockA.ID}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := twoBlocks()
			if s.Partitions[0].TooLong = ShortenTooLong; c.change != nil {
				c.change(s)
			}
			if c.req.Partitions == nil {
				c.req.Partitions = []string{"gpu"}
			}
			want, got := Admit(c.req, s, noon), AdmitNew(c.req, s, noon)
			if c.want != nil {
				want, got.Edits.Constraint = *c.want, "" // a matter of its own
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
