package lifecycle

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// This file decides when a fence may go. What it guards is in its name: it goes when EC2 says
// that this is over, never because settings do not name it, which may be the wrong ones.

// askGuarded asks EC2 about the reservations that nothing but fences of ours tells of. known:
// EC2 has answered the questions before.
func (p *pass) askGuarded(ctx context.Context, known bool) {
	p.guarded, p.gone = map[string]capacity.Reservation{}, map[string]bool{}
	before := map[string]time.Time{}
	if p.old != nil {
		before = p.old.Missing
	}
	ids := map[string]bool{}
	for _, r := range p.cluster.Reservations {
		g := r.guard()
		if _, told := p.snap.Reservation(g.block); ours(r) && g.kind == "fence" && g.block != "" && !told {
			ids[g.block] = true
		}
	}
	for id := range ids {
		if since, told := p.snap.Missing[id]; told { // it was asked about in this pass
			p.gone[id] = p.now.Sub(since) >= missingFor
			delete(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	if p.snap.Missing == nil {
		p.snap.Missing = map[string]time.Time{}
	}
	for id := range ids {
		if since, was := before[id]; was {
			p.snap.Missing[id] = since
		}
	}
	if !known {
		return
	}
	all := slices.Sorted(maps.Keys(ids))
	found, missing, err := p.EC2.Reservations(ctx, all)
	if err != nil {
		words, _ := p.EC2.Explain(err)
		p.say(capacity.FenceNotKnown, capacity.Subject{}, "", "describing %s, which fences are named after: %s; the fences stay", strings.Join(all, ", "), words)
		return
	}
	for _, r := range found {
		p.guarded[r.ID] = r
		delete(p.snap.Missing, r.ID)
	}
	for _, m := range missing {
		since, was := p.snap.Missing[m.ID]
		if !was {
			since = p.second()
			p.snap.Missing[m.ID] = since
		}
		p.gone[m.ID] = p.now.Sub(since) >= missingFor
	}
}

// mayGo reports whether a fence has nothing to guard: its block has ended, or never gets the
// slot that it is over, because another reservation has it. slots are those of the settings.
func (p *pass) mayGo(g guard, slots []slotView) bool {
	if g.block == "" {
		return true
	}
	r, known := p.snap.Reservation(g.block)
	if !known {
		r, known = p.guarded[g.block]
	}
	if !known {
		return p.gone[g.block]
	}
	if !r.LiveAt(p.now) {
		return true
	}
	for _, v := range slots {
		if v.slot.Name == g.slot {
			for _, t := range p.snap.Turns(v.slot) {
				if t.Reservation.ID == g.block && t.Never {
					return true
				}
			}
			continue
		}
		// The settings have it in another slot.
		if !v.former && slices.Contains(v.slot.ReservationIDs, g.block) && (v.current.ID == g.block || v.next.Reservation.ID == g.block) {
			return true
		}
	}
	return false
}

// tellKept names the fences that stay though the settings do not name their reservations, as
// far as that is not told of slots that the last snapshot had.
func (p *pass) tellKept(todo []step) {
	goes := map[string]bool{}
	for _, s := range todo {
		goes[s.old] = true
		goes[s.r.Name] = goes[s.r.Name] || s.do == "delete"
	}
	for _, r := range p.cluster.Reservations {
		g := r.guard()
		if !ours(r) || g.kind != "fence" || g.owner != p.Owner || goes[r.Name] {
			continue
		}
		if block, live := p.guarded[g.block]; live && block.LiveAt(p.now) {
			p.unnamed(block, g.slot, r.Name)
		} else if since, missing := p.snap.Missing[g.block]; missing {
			p.say(capacity.ReservationMissing, capacity.Subject{Slot: g.slot, Reservation: g.block}, "", "EC2 has not described reservation %s since %s; its fence %s stays until %s",
				g.block, capacity.FormatUTC(since), r.Name, capacity.FormatUTC(since.Add(missingFor)))
		}
	}
}
