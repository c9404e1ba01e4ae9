package facts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// fakeAWS answers from its fields, or with err. Errors whose text is "expired" are general.
type fakeAWS struct {
	AWS

	all     map[string]capacity.Reservation // by id
	missing map[string]capacity.Missing
	err     map[string]error // by the question's name
	calls   []string
}

func (f *fakeAWS) call(name string) error {
	f.calls = append(f.calls, name)
	return f.err[name]
}

func (f *fakeAWS) Explain(err error) (string, bool) { return err.Error(), err.Error() == "expired" }

func (f *fakeAWS) Reservations(
	_ context.Context, ids []string,
) (found []capacity.Reservation, missing []capacity.Missing, err error) {
	if err := f.call("describe " + strings.Join(ids, " ")); err != nil {
		return nil, nil, err
	}

	for _, id := range ids {
		if r, ok := f.all[id]; ok {
			found = append(found, r)
			continue
		}

		m := f.missing[id]
		m.ID = id
		if m.Err == nil {
			m.Err = errors.New("InvalidCapacityReservationId.NotFound")
		}

		missing = append(missing, m)
	}

	return found, missing, nil
}

func (f *fakeAWS) FindReservations(
	_ context.Context,
	q ec2.ReservationQuery,
) (found []capacity.Reservation, err error) {
	if err := f.call("select"); err != nil {
		return nil, err
	}

	group := &capacity.Select{Tags: q.Tags}
	for _, r := range f.all {
		if group.Matches(r) {
			found = append(found, r)
		}
	}

	return found, nil
}

func reservation(id string, start, end time.Duration) capacity.Reservation {
	return capacity.Reservation{
		ID:    id,
		Kind:  capacity.CapacityBlock,
		State: capacity.StateActive,
		Start: noon.Add(start),
		End:   noon.Add(end),
		Tags:  map[string]string{"team": id},
	}
}

// An answer that is missing never takes away what was known: an id, a tag or a node group whose question failed keeps
// its reservations, and a reservation that EC2 leaves out stays for an hour.
func TestKeep(t *testing.T) {
	const day = 24 * time.Hour

	live := reservation("cr-1", -day, day)
	ended := reservation("cr-1", -2*day, -time.Hour)
	byID := Query{Groups: []capacity.GroupSettings{{Name: "gpu", ReservationIDs: []string{"cr-1"}}}}
	byTag := Query{Groups: []capacity.GroupSettings{
		{Name: "gpu", Select: &capacity.Select{Tags: map[string]string{"team": "cr-1"}}},
	}}
	byPCS := Query{
		NodeGroups: []string{"gpu-a"},
		Held: func(context.Context, []string) (held, failed map[string]string, err error) {
			return map[string]string{"gpu-a": "cr-1"}, nil, nil
		},
	}

	for name, c := range map[string]struct {
		query   Query
		old     capacity.Reservation // "" for none
		since   time.Time            // since when EC2 has left it out
		unread  bool
		shows   bool // EC2 shows it
		err     map[string]error
		known   bool   // it is among the facts
		told    bool   // as EC2 describes it now
		says    string // a part of the problems
		failing bool   // some question that counts has no answer
	}{
		"described":            {query: byID, shows: true, known: true, told: true},
		"selected":             {query: byTag, shows: true, known: true, told: true},
		"held by a node group": {query: byPCS, shows: true, known: true, told: true},
		"never seen":           {query: byID, says: "EC2 does not describe reservation cr-1: Invalid"},
		"left out": {
			query: byID,
			old:   live,
			known: true,
			says:  "has not described reservation cr-1 since",
		},
		"left out for 59 minutes": {
			query: byID,
			old:   live,
			since: noon.Add(-59 * time.Minute),
			known: true,
			says:  "until 2026-11-20 12:01",
		},
		"left out for an hour": {
			query: byID,
			old:   live,
			since: noon.Add(-time.Hour),
			says:  "does not describe",
		},
		"EC2 forgets what has ended": {query: byID, old: ended, known: true},
		"cannot be read":             {query: byID, old: live, unread: true, known: true, says: "cannot be read"},
		"cannot be read, never seen": {query: byID, unread: true, says: "cannot be read"},
		"cannot be read for a day": {
			query:  byID,
			old:    live,
			since:  noon.Add(-day),
			unread: true,
			known:  true,
			says:   "cannot be read",
		},
		"its query fails": {
			query:   byID,
			old:     live,
			err:     map[string]error{"describe cr-1": errors.New("slow")},
			known:   true,
			says:    "describing reservations cr-1: slow; what was known before is kept",
			failing: true,
		},
		"its tags' query fails": {
			query:   byTag,
			old:     live,
			err:     map[string]error{"select": errors.New("slow")},
			known:   true,
			says:    "node group gpu by tag: slow",
			failing: true,
		},
		"no call is answered": {
			query:   byTag,
			old:     live,
			err:     map[string]error{"select": errors.New("expired")},
			known:   true,
			says:    "expired; what was known",
			failing: true,
		},
		"AWS cannot be asked": {
			query:   Query{Groups: byID.Groups, Offline: errors.New("no region")},
			old:     live,
			known:   true,
			says:    "no region",
			failing: true,
		},
		"nobody asks about it anymore": {query: Query{}, old: live},
	} {
		t.Run(name, func(t *testing.T) {
			aws := &fakeAWS{err: c.err, missing: map[string]capacity.Missing{"cr-1": {Unread: c.unread}}}
			if c.shows {
				aws.all = map[string]capacity.Reservation{"cr-1": live}
			}

			old := &capacity.Snapshot{Missing: map[string]time.Time{}}
			if c.old.ID != "" {
				old.Reservations = []capacity.Reservation{c.old}
			}

			if !c.since.IsZero() {
				old.Missing["cr-1"] = c.since
			}

			k := Read(t.Context(), aws, c.query).Keep(old, noon)

			known := slices.ContainsFunc(k.Reservations, func(r capacity.Reservation) bool { return r.ID == "cr-1" })
			said := fmt.Sprint(k.Problems)
			if known != c.known || k.Told["cr-1"] != c.told || len(k.Unanswered) > 0 != c.failing ||
				!strings.Contains(said, c.says) || (c.says == "") != (len(k.Problems) == 0) {
				t.Errorf("known %t, told %t, unanswered %v, said %s", known, k.Told["cr-1"], k.Unanswered, said)
			}
		})
	}
}

// After an error that every call would meet nothing more is asked, and it is said once.
func TestReadStopsWhenNobodyAnswers(t *testing.T) {
	aws := &fakeAWS{err: map[string]error{"select": errors.New("expired")}}
	q := Query{
		Groups:     []capacity.GroupSettings{{Name: "gpu", Select: &capacity.Select{}}},
		NodeGroups: []string{"gpu-a"},
		Held: func(context.Context, []string) (held, failed map[string]string, err error) {
			return map[string]string{"gpu-a": "cr-1"}, nil, nil
		},
	}

	k := Read(t.Context(), aws, q).Keep(nil, noon)
	if !slices.Equal(aws.calls, []string{"select"}) || len(k.Problems) != 1 || len(k.Unanswered) != 1 {
		t.Errorf("calls %q, problems %v, unanswered %v", aws.calls, k.Problems, k.Unanswered)
	}
}

// A launch is decided on current answers. A reservation that EC2 leaves out keeps its slot.
func TestFresh(t *testing.T) {
	live, ended := reservation("cr-1", -time.Hour, time.Hour), reservation("cr-2", -time.Hour, -time.Minute)
	last := &capacity.Snapshot{Reservations: []capacity.Reservation{live, ended}}
	q := Query{Groups: []capacity.GroupSettings{{ReservationIDs: []string{"cr-1", "cr-2", "cr-3"}}}}

	f, err := Read(t.Context(), &fakeAWS{}, q).Fresh(last, noon)
	if err != nil || len(f.Reservations) != 1 || f.Reservations[0].ID != "cr-1" {
		t.Errorf("%+v, %v", f.Reservations, err)
	}

	slow := errors.New("slow")

	_, err = Read(t.Context(), &fakeAWS{err: map[string]error{"describe cr-1 cr-2 cr-3": slow}}, q).Fresh(last, noon)
	if !errors.Is(err, slow) || !strings.HasPrefix(err.Error(), "describing reservations cr-1, cr-2, cr-3: ") {
		t.Error(err)
	}
}
