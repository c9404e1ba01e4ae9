package capacity

import (
	"strings"
	"testing"
	"time"
)

// What a job's --begin and --deadline leave of a block is what its limit has to fit into.
func TestAdmitBeginAndDeadline(t *testing.T) {
	fenceA := blockA.End.Add(-40 * time.Minute)
	endless := func(s *Snapshot) {
		s.Reservations[0].End, s.Reservations[0].Kind = time.Time{}, ODCR
		s.Partitions[0].Groups[0].PurchaseOption = ODCR
	}
	hour := Minutes(60)
	for _, c := range []struct {
		name    string
		req     Request
		change  []func(*Snapshot)
		code    Code
		refused bool
		message string
		edits   Edits
		both    bool // blocks: else only A
	}{
		{name: "begins just in time", req: Request{TimeLimit: hour, Begin: fenceA.Add(-time.Hour)}, code: OK},
		{name: "begins a minute too late", req: Request{TimeLimit: hour, Begin: fenceA.Add(-59 * time.Minute)}, code: TooLong, refused: true,
			message: "the job needs 01:00:00, but it begins at 2026-03-03 10:21 UTC (--begin), and jobs on cr-aaaaaaaaaaaaaaaaa in partition gpu must end by 2026-03-03 11:20 UTC. Use --time=00:59:00 or less"},
		{name: "boot counts after the begin", req: Request{TimeLimit: hour, Begin: fenceA.Add(-time.Hour)}, change: []func(*Snapshot){dynamic}, code: TooLong, refused: true, message: "00:50:00"},
		{name: "begins after the fence", req: Request{TimeLimit: hour, Begin: fenceA.Add(time.Hour)}, code: TooLong, refused: true,
			message: "no time is left before that; use an earlier --begin, or wait for the next block"},
		{name: "a begin that has passed changes nothing", req: Request{TimeLimit: hour, Begin: noon.Add(-time.Hour)}, code: OK},
		{name: "begins after the fence, no limit", req: Request{Begin: fenceA.Add(time.Hour)}, code: TooLong, refused: true, message: "a job without --time needs at least 00:30:00 (min_time of partition gpu), but it begins at"},
		{name: "no limit: fitted from the begin on", req: Request{Begin: fenceA.Add(-2 * time.Hour)}, code: OK,
			edits: Edits{TimeLimit: Minutes(120), TimeMin: Minutes(31)}},
		{name: "ends by its deadline", req: Request{TimeLimit: hour, Deadline: noon.Add(time.Hour)}, code: OK},
		{name: "cannot end by its deadline", req: Request{TimeLimit: hour, Deadline: noon.Add(59 * time.Minute)}, code: TooLong, refused: true,
			message: "its --deadline is 2026-03-01 12:59 UTC. Use --time=00:59:00 or less"},
		{name: "its deadline has passed", req: Request{TimeLimit: hour, Deadline: noon.Add(-time.Minute)}, code: TooLong, refused: true, message: "use a later --deadline"},
		{name: "deadline after the fence", req: Request{TimeLimit: Minutes(100 * 60), Deadline: fenceA.Add(200 * time.Hour)}, code: TooLong, refused: true, message: "must end by"},
		{name: "no limit: fitted to the deadline", req: Request{Deadline: noon.Add(90 * time.Minute)}, code: OK,
			edits: Edits{TimeLimit: Minutes(90), TimeMin: Minutes(31)}},
		{name: "begin and deadline", req: Request{TimeLimit: hour, Begin: noon.Add(2 * time.Hour), Deadline: noon.Add(150 * time.Minute)}, code: TooLong, refused: true,
			message: "it begins at 2026-03-01 14:00 UTC (--begin), and its --deadline is 2026-03-01 14:30 UTC. Use --time=00:30:00 or less"},
		{name: "no end: only the deadline counts", req: Request{TimeLimit: hour, Deadline: noon.Add(30 * time.Minute)}, change: []func(*Snapshot){endless}, code: TooLong, refused: true, message: "--deadline"},
		{name: "no end and no deadline", req: Request{TimeLimit: NoLimit, Begin: noon.Add(9999 * time.Hour)}, change: []func(*Snapshot){endless}, code: OK},
		{name: "deadline before the block opens", req: Request{TimeLimit: hour, Deadline: noon.Add(time.Hour), Comment: "capacity_reservation_id=" + blockB.ID}, both: true, code: TooLong, refused: true,
			message: "reservation cr-bbbbbbbbbbbbbbbbb of partition gpu opens at 2026-03-04 12:00 UTC, and its --deadline is 2026-03-01 13:00 UTC and no time is left"},
		{name: "begins in the second block", req: Request{TimeLimit: hour, Begin: fenceA}, both: true, code: OK, edits: Edits{Constraint: "[gpu-a|gpu-b]"}, message: "waits for cr-bbbbbbbbbbbbbbbbb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.Partitions = []string{"gpu"}
			if !c.both {
				c.change = append(c.change, onlyA)
			}
			v := Admit(c.req, twoBlocks(c.change...), noon)
			said := v.Message + strings.Join(v.Warnings, "\n")
			if v.Code != c.code || v.Refused != c.refused || !strings.Contains(said, c.message) {
				t.Errorf("got %s, refused %v, saying %q; want %s, %v, %q", v.Code, v.Refused, said, c.code, c.refused, c.message)
			}
			if v.Edits != c.edits {
				t.Errorf("edits %+v, want %+v", v.Edits, c.edits)
			}
		})
	}
}

// Who names a reservation that has ended hears which one is open.
func TestAdmitNamesWhatIsOpen(t *testing.T) {
	ended := func(s *Snapshot) { s.Reservations[0].State = StateExpired }
	opened := func(s *Snapshot) {
		s.Reservations[1].State, s.Reservations[1].Start = StateActive, noon.Add(-time.Hour)
	}
	for _, c := range []struct {
		name   string
		change []func(*Snapshot)
		want   string
	}{
		{"the other is open", []func(*Snapshot){ended, opened}, "can no longer be used (cr-aaaaaaaaaaaaaaaaa is expired); name cr-bbbbbbbbbbbbbbbbb, which is open, or none"},
		{"the other opens later", []func(*Snapshot){ended}, "name cr-bbbbbbbbbbbbbbbbb, which opens at 2026-03-04 12:00 UTC, or none"},
		{"and one that never gets its turn", []func(*Snapshot){ended, opened, func(s *Snapshot) {
			never := blockB
			never.ID, never.Start, never.End = "cr-ccccccccccccccccc", noon.Add(time.Hour), noon.Add(2*time.Hour)
			s.Reservations = append(s.Reservations, never)
			slot := &s.Partitions[0].Groups[0].Slots[1]
			slot.ReservationIDs = append(slot.ReservationIDs, never.ID)
		}}, "name cr-bbbbbbbbbbbbbbbbb, which is open, or none"},
		{"and one that EC2 did not describe", []func(*Snapshot){ended, opened, func(s *Snapshot) {
			slot := &s.Partitions[0].Groups[0].Slots[1]
			slot.ReservationIDs = append(slot.ReservationIDs, "cr-ddddddddddddddddd")
		}}, "name cr-bbbbbbbbbbbbbbbbb, which is open, or none"},
		{"no other", []func(*Snapshot){ended, onlyA}, "no reservation of partition gpu is open or scheduled (cr-aaaaaaaaaaaaaaaaa is expired); ask an administrator"},
		{"EC2 did not describe the other", []func(*Snapshot){ended, func(s *Snapshot) { s.Reservations = s.Reservations[:1] }}, "ask an administrator"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Admit(Request{Partitions: []string{"gpu"}, Comment: "capacity_reservation_id=" + blockA.ID}, twoBlocks(c.change...), noon)
			if v.Code != NoReservation || !v.Refused || !strings.Contains(v.Message, c.want) {
				t.Errorf("got %+v, want %q", v, c.want)
			}
		})
	}
}
