package submit

import (
	"fmt"
	"regexp"
	"sync"
	"time"
)

// timeInText is what capacity.FormatUTC writes.
var timeInText = sync.OnceValue(
	func() *regexp.Regexp { return regexp.MustCompile(`\b\d{4}-\d\d-\d\d \d\d:\d\d UTC\b`) },
)

// localTimes puts the time as squeue writes it, in a zone, before each UTC time of a text:
// "2026-03-03T05:50 (10:50 UTC)", with the date of both where they differ. Where the zone
// is UTC it leaves the text as it is.
func localTimes(text string, zone *time.Location) string {
	return timeInText().ReplaceAllStringFunc(text, func(utc string) string {
		t, err := time.Parse("2006-01-02 15:04 UTC", utc)
		local := t.In(zone)
		if _, offset := local.Zone(); err != nil || offset == 0 {
			return utc
		}
		if t.Day() == local.Day() {
			utc = utc[len("2006-01-02 "):]
		}
		return fmt.Sprintf("%s (%s)", local.Format("2006-01-02T15:04"), utc)
	})
}
