package ec2

import (
	"context"
	"errors"
	"time"
)

// New things may not show at once in later calls: EC2 Developer Guide, "Eventual consistency". So
// nothing relies on a read right after a create, and "not found" is not believed at once.
//
// settleTime is how long "not found" is not believed; nearly everything shows within seconds.
const settleTime = 15 * time.Second

// againWhile repeats a call, with growing pauses, while its error means "not found", for settleTime
// and as long as ctx allows. It returns the last error.
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

// errNotShown is an answer without the thing asked for.
var errNotShown = errors.New("EC2 does not show it yet")

func notShown(err error) bool { return errors.Is(err, errNotShown) }
