package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Notice is a problem or an event that people want to hear of, once.
type Notice struct {
	capacity.Problem
	User string    `json:"user,omitempty"` // the owner of the job that it is about
	At   time.Time `json:"at"`             // AWS's time of the pass that found it
	key  string    // what it is about: each key is delivered once
}

// noticeKey returns the key of a notice in the ledger; about tells it from others with its code.
func noticeKey(code capacity.Code, about string) string { return string(code) + " " + about }

// dueNotices returns the notices after a pass that were not sent before, and the ledger to record before they are
// delivered: the keys of the notices that were sent, with the times of that, and since when nodes are idle. before is
// the ledger of earlier passes.
func dueNotices(
	snap *capacity.Snapshot, report Report, before map[string]time.Time,
) (due []Notice, told map[string]time.Time) {
	told = maps.Clone(before)
	if told == nil {
		told = map[string]time.Time{}
	}

	maps.DeleteFunc(told, func(_ string, at time.Time) bool { return report.At.Sub(at) > keepNotices })

	view := noticeView{
		Report: report,
		snap:   snap,
		slots:  snap.SlotStates(report.At),
		told:   told,
	}
	recordIdle(view)

	seen := map[string]bool{}
	for _, rule := range noticeRules {
		for _, n := range rule(view) {
			if _, known := told[n.key]; !known && !seen[n.key] {
				n.At = report.At.UTC().Truncate(time.Second)
				due = append(due, n)
			}

			seen[n.key] = true
		}
	}

	forgetOver(told, seen, report.Jobs != nil)

	return due, told
}

// forgetOver removes from the ledger what a pass found earlier and no longer does: it may come again. Where the jobs
// were not read, nothing about them is over.
func forgetOver(told map[string]time.Time, seen map[string]bool, jobsRead bool) {
	for _, m := range capacity.Codes {
		recurs := m.Code.AppearsAt(capacity.AtPass) && m.Code.AppearsAt(capacity.AtNotice)
		if !recurs || m.Code == capacity.NeverStarts && !jobsRead {
			continue
		}

		maps.DeleteFunc(told, func(key string, _ time.Time) bool {
			return strings.HasPrefix(key, noticeKey(m.Code, "")) && !seen[key]
		})
	}
}

// keepNotices bounds the age of the records of deliveries.
const keepNotices = 400 * 24 * time.Hour

// DeliverNotices delivers the notices after a pass, each once. A failed delivery is the last of a pass: the next one
// goes on with it. So it does with one whose program was killed before it recorded the delivery. The errors are those
// of the delivery and of the file in state_dir.
func DeliverNotices(dir state.Dir, snap *capacity.Snapshot, report Report, deliver func(Notice) error) []error {
	before, err := dir.Notices().Read()
	if err != nil {
		return []error{err}
	}

	all, told := dueNotices(snap, report, before)

	var errs []error

	// Recorded after each delivery: a kill repeats one message at most, and loses none.
	for _, n := range all {
		if err := deliver(n); err != nil {
			errs = append(errs, fmt.Errorf("sending notice %q: %w", n.Code, err))
			break
		}

		told[n.key] = n.At
		if err := dir.Notices().Save(told); err != nil { // one by one, so a kill repeats at most one
			return append(errs, err)
		}
	}

	if err := dir.Notices().Save(told); err != nil {
		errs = append(errs, err)
	}

	return slices.Clip(errs)
}
