package ec2

import (
	"errors"
	"testing"
)

// TestOneChange has one change of a cluster at a time, though EC2 shows late what is made: one of
// another owner or host is kept out, one of the same takes the place of what it left.
func TestOneChange(t *testing.T) {
	_, c := laggingWorld(t)
	mine := Change{Cluster: "pcs_0e20000001", Mark: "ml", Owner: "0a1b2c3d", Host: "one", PID: 1}
	begin := func(change Change) (func(), error) {
		end, err := c.BeginChange(t.Context(), change)
		return func() {
			t.Helper()
			if err := end(t.Context()); err != nil {
				t.Error(err)
			}
		}, err
	}
	if _, err := begin(mine); err != nil {
		t.Fatal(err)
	}
	for _, other := range []Change{{Cluster: mine.Cluster, Mark: "ml", Owner: "0a1b2c3e", Host: "one"}, {Cluster: mine.Cluster, Mark: "ml", Owner: mine.Owner, Host: "two"}} {
		if _, err := begin(other); !errors.Is(err, ErrChanged) {
			t.Errorf("%+v: %v", other, err)
		}
	}
	elsewhere, err := begin(Change{Cluster: "pcs_0e20000002", Mark: "mp", Owner: "0a1b2c3e", Host: "two"})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere()
	end, err := begin(mine) // again
	if err != nil {
		t.Fatal(err)
	}
	end()
	if change, found, err := c.ChangeOf(t.Context(), mine.Cluster); found || err != nil {
		t.Errorf("left is %s, %v", change, err)
	}
	if end, err = begin(Change{Cluster: mine.Cluster, Mark: "ml", Owner: "0a1b2c3e", Host: "two"}); err != nil {
		t.Fatal(err)
	}
	end()
}
