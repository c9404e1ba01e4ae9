package lifecycle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// ErrUnderWay is a deliver function's answer when the delivery continues in the background: Told ends it.
var ErrUnderWay = errors.New("the delivery is under way")

// keeping guards the file of delivered notices.
var keeping sync.Mutex

// Told records that a notice has been delivered.
func Told(dir state.Dir, n Notice) error {
	keeping.Lock()
	defer keeping.Unlock()
	told, err := dir.Notices()
	if err != nil {
		return err
	}
	if told == nil {
		told = map[string]time.Time{}
	}
	told[n.key] = n.At
	return dir.KeepNotices(told)
}

// Key identifies a notice's event: there is one notice for each.
func (n Notice) Key() string { return n.key }

// Tell delivers the notices after a pass, each once. A failed delivery is repeated after the next pass; so is one
// whose program was killed before it recorded the delivery. A notice answered with ErrUnderWay counts as delivered
// once Told says so. The errors are those of deliveries and of the file in state_dir.
func Tell(dir state.Dir, snap *capacity.Snapshot, report Report, s NoticeSettings, deliver func(Notice) error) []error {
	keeping.Lock()
	defer keeping.Unlock()
	before, err := dir.Notices()
	if err != nil {
		return []error{err}
	}
	all, told := due(snap, report, s, before)
	var errs []error
	for _, n := range all {
		switch err := deliver(n); {
		case errors.Is(err, ErrUnderWay):
			continue
		case err != nil:
			err = fmt.Errorf("telling %q: %w", n.Kind, err)
			if !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == err.Error() }) {
				errs = append(errs, err)
			}
			continue
		}
		told[n.key] = n.At
		if err := dir.KeepNotices(told); err != nil { // one by one, so a kill repeats at most one
			return append(errs, err)
		}
	}
	if !maps.Equal(told, before) {
		if err := dir.KeepNotices(told); err != nil {
			errs = append(errs, err)
		}
	}
	return slices.Clip(errs)
}
