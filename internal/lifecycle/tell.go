package lifecycle

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Tell delivers the notices after a pass, each once. A failed delivery is the last of a pass: the next one goes on
// with it. So it does with one whose program was killed before it recorded the delivery. The errors are those of the
// delivery and of the file in state_dir.
func Tell(dir state.Dir, snap *capacity.Snapshot, report Report, s NoticeSettings, deliver func(Notice) error) []error {
	before, err := dir.Notices()
	if err != nil {
		return []error{err}
	}
	all, told := due(snap, report, s, before)
	var errs []error
	for _, n := range all {
		if err := deliver(n); err != nil {
			errs = append(errs, fmt.Errorf("telling %q: %w", n.Kind, err))
			break
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
