package capacity

import "time"

// Clock learns how far AWS's clock is ahead of the machine's. One answer with a wrong time moves no fence: a jump
// counts when a second answer agrees. Until two answers have agreed at all, the one nearer to the machine's own clock
// counts.
type Clock struct {
	offset  time.Duration
	doubted *time.Duration // what the last answer said, if it did not agree
	agreed  int            // how many answers have agreed with the offset
}

// clockJump exceeds what a slow answer makes: between two answers, only a wrong clock differs by as much.
const clockJump = time.Minute

// Observe takes the offset that an answer shows.
func (c *Clock) Observe(offset time.Duration) {
	agrees := func(with time.Duration) bool { return (offset - with).Abs() < clockJump }

	switch was := c.offset; {
	case c.agreed == 0, agrees(was):
		c.offset = offset
		c.doubted = nil
		c.agreed++
	case c.doubted != nil && agrees(*c.doubted):
		c.offset = offset
		c.doubted = nil
		c.agreed = 2
	case c.agreed == 1 && offset.Abs() < was.Abs():
		c.offset = offset
		c.doubted = &was
	default:
		c.doubted = &offset
	}
}

// Offset returns AWS's time minus the machine's, 0 before the first answer.
func (c *Clock) Offset() time.Duration { return c.offset }
