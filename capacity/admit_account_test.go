package capacity

import (
	"strings"
	"testing"
	"time"
)

func forNLP(s *Snapshot) { s.Partitions[0].AllowAccounts = []string{"nlp", "vision"} }

// An account that is not known is left to Slurm's own AllowAccounts; one that is known
// counts, also when it is none.
func TestAdmitAccount(t *testing.T) {
	for _, c := range []struct {
		name    string
		req     Request
		refused bool
		message string
	}{
		{name: "allowed", req: Request{Account: "nlp"}},
		{name: "not allowed", req: Request{Account: "law"}, refused: true, message: `account "law" may not use the reservations of partition gpu; allowed: nlp, vision`},
		{name: "not given, default account unknown", req: Request{}},
		{name: "none", req: Request{AccountKnown: true}, refused: true, message: "a job without an account may not use the reservations of partition gpu; submit with --account=nlp or --account=vision"},
		{name: "default account", req: Request{Account: "vision", AccountKnown: true}},
		{name: "default account that is not allowed", req: Request{Account: "law", AccountKnown: true}, refused: true, message: `account "law"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.Partitions, c.req.TimeLimit = []string{"gpu"}, Minutes(60)
			for kind, verdict := range map[string]Verdict{"submitted": Admit(c.req, twoBlocks(onlyA, forNLP), noon), "changed": AdmitChange(c.req, twoBlocks(onlyA, forNLP), noon)} {
				if verdict.Refused != c.refused || verdict.Refused && verdict.Code != AccountNotAllowed || !strings.Contains(verdict.Message, c.message) {
					t.Errorf("%s: got %+v, want refused %v: %s", kind, verdict, c.refused, c.message)
				}
			}
		})
	}
	if v := Admit(Request{Partitions: []string{"cpu", "gpu"}, Account: "law"}, twoBlocks(onlyA, forNLP), noon); !v.Refused || v.Code != AccountNotAllowed {
		t.Errorf("a second partition opens one that is not for the account: %+v", v)
	}
	if v := Admit(Request{Partitions: []string{"gpu"}, TimeLimit: Minutes(60), AccountKnown: true}, twoBlocks(onlyA), noon); v.Refused {
		t.Errorf("a partition for everyone refuses a job without an account: %+v", v)
	}
}

// A change is judged by account and comment alone: how long, how large and when is
// Slurm's to hold back, and what has ended must not keep a comment from being corrected.
func TestAdmitChange(t *testing.T) {
	ended := func(s *Snapshot) { s.Reservations[0].State = StateExpired }
	for _, c := range []struct {
		name   string
		req    Request
		change []func(*Snapshot)
		code   Code
	}{
		{name: "no limit, no edit", code: OK},
		{name: "too long and too large", req: Request{TimeLimit: NoLimit, Nodes: 99}, code: OK},
		{name: "ended", change: []func(*Snapshot){ended}, code: OK},
		{name: "reservation of the partition", req: Request{Comment: "capacity_reservation_id=" + blockA.ID}, code: OK},
		{name: "reservation of nobody", req: Request{Comment: "capacity_reservation_id=cr-0123456789abcdef0"}, code: UnknownReservation},
		{name: "cannot be right", req: Request{Comment: "capacity_reservation_id=mine"}, code: BadComment},
		{name: "another end of a job that runs", req: Request{Comment: "on_end=requeue", Was: "on_end=stop", Started: true}, code: BadComment},
		{name: "the same end", req: Request{Comment: "run=2 on_end=stop", Was: "on_end=stop", Started: true}, code: OK},
		{name: "account", req: Request{Account: "law"}, change: []func(*Snapshot){forNLP}, code: AccountNotAllowed},
		{name: "another partition's reservation, unmanaged partition", req: Request{Partitions: []string{"cpu"}, Comment: "capacity_reservation_id=" + blockA.ID}, code: WrongPartition},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.req.Partitions == nil {
				c.req.Partitions = []string{"gpu"}
			}
			v := AdmitChange(c.req, twoBlocks(append(c.change, onlyA)...), noon)
			if v.Code != c.code || v.Refused != (c.code != OK) || v.Edits != (Edits{}) {
				t.Errorf("got %+v, want %s", v, c.code)
			}
		})
	}
}

// An old snapshot lets through what may have changed in AWS, and nothing else.
func TestAdmitStale(t *testing.T) {
	ended := func(s *Snapshot) { s.Reservations[0].State = StateExpired }
	for _, c := range []struct {
		name    string
		req     Request
		change  []func(*Snapshot)
		code    Code
		refused bool
	}{
		{"account", Request{Account: "law"}, []func(*Snapshot){forNLP}, AccountNotAllowed, true},
		{"none", Request{AccountKnown: true}, []func(*Snapshot){forNLP}, AccountNotAllowed, true},
		{"comment that cannot be right", Request{Comment: "capacity_reservation_id=mine"}, nil, BadComment, true},
		{"reservation of nobody", Request{Comment: "capacity_reservation_id=cr-0123456789abcdef0"}, nil, UnknownReservation, true},
		{"a known end", Request{TimeLimit: NoLimit}, nil, TooLong, true},
		{"nodes", Request{Nodes: 9}, nil, TooManyNodes, false},
		{"ended", Request{}, []func(*Snapshot){ended}, NoReservation, false},
		{"subnet", Request{Comment: "subnet_id=subnet-bbbbbbbb"}, nil, NoMatchingCapacity, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.Partitions = []string{"gpu"}
			if !c.req.TimeLimit.Set {
				c.req.TimeLimit = Minutes(60)
			}
			v := Admit(c.req, twoBlocks(append(c.change, onlyA, stale)...), noon)
			if v.Code != c.code || v.Refused != c.refused {
				t.Errorf("got %+v, want %s, refused %v", v, c.code, c.refused)
			}
			fresh := Admit(c.req, twoBlocks(append(c.change, onlyA)...), noon.Add(time.Second))
			if fresh.Code != c.code || !fresh.Refused {
				t.Errorf("with a fresh snapshot: %+v", fresh)
			}
		})
	}
}
