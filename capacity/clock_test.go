package capacity

import (
	"testing"
	"time"
)

// An offset in minutes after each answer.
func TestClock(t *testing.T) {
	for name, c := range map[string]struct{ answers, want []int }{
		"the first counts":                 {[]int{120}, []int{120}},
		"drift is followed":                {[]int{3, 3, 3}, []int{3, 3, 3}},
		"one wrong answer":                 {[]int{0, 0, 120, 0, 120, 0}, []int{0, 0, 0, 0, 0, 0}},
		"a jump that stays":                {[]int{0, 0, 120, 120, 120}, []int{0, 0, 0, 120, 120}},
		"a jump that jumps again":          {[]int{0, 0, 120, -60, -60}, []int{0, 0, 0, 0, -60}},
		"the first is wrong":               {[]int{120, 0, 0}, []int{120, 0, 0}},
		"the second is wrong":              {[]int{1, 120, 1}, []int{1, 1, 1}},
		"the machine's clock is hours off": {[]int{120, 120, 0, 120}, []int{120, 120, 120, 120}},
	} {
		t.Run(name, func(t *testing.T) {
			var clock Clock
			for i, minutes := range c.answers {
				clock.Observe(time.Duration(minutes) * time.Minute)

				if got := clock.Offset(); got != time.Duration(c.want[i])*time.Minute {
					t.Errorf("after answer %d the offset is %s, want %d minutes", i+1, got, c.want[i])
				}
			}
		})
	}
}
