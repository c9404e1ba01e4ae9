package state

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

const heldFile = "held.json"

func (d Dir) held() file[[]capacity.Held] {
	return file[[]capacity.Held]{dir: d, name: heldFile, reading: "reading what is held", keeping: "noting what is held"}
}

// Held is the ledger of the capacity that the programs of this state folder hold now; none if there
// is no file. EC2 shows it too, but not at once.
func (d Dir) Held(now time.Time) ([]capacity.Held, error) {
	held, err := d.held().read()
	return slices.DeleteFunc(held, func(h capacity.Held) bool { return !h.Until.After(now) }), err
}

// Enlist enters an ODCR into the ledger, or completes its entry, and returns the entry. What a token has ordered before
// keeps its end: EC2 binds a token to it. allowed may refuse one that does not exist yet, and gets it and the others.
// The entry is durable before Enlist returns: the order may follow.
func (d Dir) Enlist(h capacity.Held, now time.Time, allowed func(more capacity.Held, others []capacity.Held) error) (capacity.Held, error) {
	err := d.changeHeld(now, func(held []capacity.Held) ([]capacity.Held, error) {
		if i := slices.IndexFunc(held, func(o capacity.Held) bool { return o.Token == h.Token }); i >= 0 {
			h.Until = held[i].Until
			held = slices.Delete(held, i, i+1)
		}
		if h.ReservationID == "" {
			if err := allowed(h, held); err != nil {
				return nil, err
			}
		}
		return append(held, h), nil
	})
	return h, err
}

// Released removes entries from the ledger, by token or id.
func (d Dir) Released(now time.Time, names ...string) error {
	if held, err := d.Held(now); err == nil && len(held) == 0 {
		return nil // there may be no state folder yet
	}
	return d.changeHeld(now, func(held []capacity.Held) ([]capacity.Held, error) {
		return slices.DeleteFunc(held, func(h capacity.Held) bool {
			return slices.Contains(names, h.Token) || h.ReservationID != "" && slices.Contains(names, h.ReservationID)
		}), nil
	})
}

// ledgerWait is how long a program waits for others that change the ledger: a part of a hook's
// time.
var ledgerWait = 10 * time.Second

// changeHeld lets one program at a time change the ledger; that takes it milliseconds.
func (d Dir) changeHeld(now time.Time, change func([]capacity.Held) ([]capacity.Held, error)) error {
	unlock, err := d.Lock(context.Background(), LedgerLock, ledgerWait)
	if err != nil {
		return fmt.Errorf("noting what is held: %w", err)
	}
	defer unlock()
	held, err := d.Held(now)
	if err != nil {
		return err
	}
	if held, err = change(held); err != nil {
		return err
	}
	return d.held().write(held)
}
