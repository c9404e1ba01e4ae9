package ec2

import (
	"context"
	"errors"
	"time"
)

// What was just created does not show at once to the calls that follow: EC2 Developer
// Guide, "Eventual consistency". So nothing is built on a read right after a create, and
// an answer that there is no such thing is not believed at once.
//
// settleTime is how long it is not believed; nearly everything shows within seconds.
const settleTime = 15 * time.Second

// againWhile makes a call, and makes it again with growing pauses while its error is one
// that says that there is no such thing, for settleTime and as long as ctx allows. It
// returns the last error.
func (c *Client) againWhile(ctx context.Context, absent func(error) bool, call func() error) error {
	began := time.Now()
	for pause := c.shared.settle / 64; ; pause *= 2 {
		err := call()
		if err == nil || !absent(err) || time.Since(began)+pause > c.shared.settle {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// errNotShown is an answer that leaves out what was asked for.
var errNotShown = errors.New("EC2 does not show it yet")

func notShown(err error) bool { return errors.Is(err, errNotShown) }
