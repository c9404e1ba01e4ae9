package capacity

import (
	"testing"
)

func TestWall(t *testing.T) {
	w := NewWalls(
		[]QOSWall{{Name: "normal"}, {Name: "short", MaxWall: Minutes(60)}, {Name: "long", MaxWall: Minutes(600)},
			{Name: "over", MaxWall: Minutes(700), OverPartition: true}, {Name: "part", MaxWall: Minutes(120)}},
		[]Association{
			{Account: "root"}, {Account: "nlp", MaxWall: Minutes(300)}, {Account: "nlp", User: "ann", MaxWall: Minutes(300)},
			{Account: "nlp", User: "bob", MaxWall: Minutes(30)}, {Account: "nlp", User: "bob", Partition: "gpu", MaxWall: Minutes(20)},
			{Account: "vis", DefaultQOS: "short"}, {Account: "vis", User: "bob", DefaultQOS: "short"}, {Account: "vis", User: "ann", DefaultQOS: "normal"},
			{Account: "free"}, {Account: "free", User: "bob"},
		}, map[string]string{"ann": "nlp", "bob": "vis", "cleo": "free"})
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
		if got := w.Wall(c.user, c.account, c.qos, c.p); got.Minutes != c.want || got.Bounded() != (c.want > 0) {
			t.Errorf("%+v: got %s", c, got)
		}
	}
	if len(w.Associations) != 5 || len(w.Accounts) != 2 || len(w.QOS) != 4 {
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
			snap.Walls = Walls{QOS: []QOSWall{{Name: NormalQOS, MaxWall: Minutes(c.wall)}}}
			c.req.Partitions = []string{"gpu"}
			v := Admit(c.req, snap, noon)
			if v.Refused || v.Edits.TimeLimit.Minutes != c.time || v.Edits.TimeMin.Minutes != c.min {
				t.Errorf("%+v", v)
			}
		})
	}
}
