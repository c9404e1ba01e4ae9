package capacity

import (
	"fmt"
	"math/rand/v2"
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

// What is left out of the walls changes no answer.
func TestWallsAreReduced(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	name := func(prefix string, n int) string { return fmt.Sprint(prefix, rng.IntN(n)) }
	for range 2000 {
		all := Walls{Accounts: map[string]string{}}
		limit := func() Limit {
			if rng.IntN(2) == 0 {
				return Limit{}
			}
			return Minutes(1 + rng.IntN(3))
		}
		for n := range 2 {
			all.QOS = append(all.QOS, QOSWall{Name: fmt.Sprint("q", n), MaxWall: limit(), OverPartition: rng.IntN(2) == 0, Metered: rng.IntN(4) == 0})
		}
		for a := range 2 {
			for _, user := range []string{"", "u0", "u1"} {
				for _, partition := range []string{"", "p0"} {
					if user == "" && partition != "" {
						continue
					}
					all.Associations = append(all.Associations, Association{Account: fmt.Sprint("a", a), User: user, Partition: partition, MaxWall: limit(),
						DefaultQOS: []string{"", "normal", "q0"}[rng.IntN(3)], Metered: rng.IntN(3) == 0})
				}
			}
		}
		for n := range 2 {
			all.Accounts[fmt.Sprint("u", n)] = name("a", 2)
		}
		few := NewWalls(all.QOS, all.Associations, all.Accounts)
		for range 20 {
			user, account, qos, p := name("u", 2), name("a", 2), name("q", 2), Partition{Name: name("p", 2), QOS: name("q", 3)}
			if rng.IntN(2) == 0 {
				account = ""
			}
			if rng.IntN(2) == 0 {
				qos = ""
			}
			if got, want := few.Wall(user, account, qos, p), all.Wall(user, account, qos, p); got != want {
				t.Fatalf("%s %s %s %+v: %s, not %s\n%+v\n%+v", user, account, qos, p, got, want, few, all)
			}
			if got, want := few.Metered(user, account, qos, p), all.Metered(user, account, qos, p); got != want {
				t.Fatalf("%s %s %s %+v: metered %t\n%+v\n%+v", user, account, qos, p, got, few, all)
			}
		}
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
