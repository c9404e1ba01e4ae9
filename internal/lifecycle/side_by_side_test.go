package lifecycle

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// together is an AWS that answers its first three calls once Slurm was asked and all three have come.
type together struct {
	within
	mu    sync.Mutex
	calls int
	asked chan struct{} // closed with the first call
	come  chan struct{} // closed with the third
	slurm chan struct{} // closed when Slurm was asked
}

func (s *together) Do(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.calls++
	switch s.calls {
	case 1:
		close(s.asked)
	case 3:
		close(s.come)
	}
	s.mu.Unlock()
	for _, c := range []chan struct{}{s.come, s.slurm} {
		if err := meets(r.Context(), c); err != nil {
			return nil, err
		}
	}
	return s.within.Do(r)
}

// besideAWS is a Slurm that answers once AWS has been asked.
type besideAWS struct {
	*model
	aws  *together
	once sync.Once
}

func (s *besideAWS) Look(ctx context.Context) (*Cluster, error) {
	s.once.Do(func() { close(s.aws.slurm) })
	if err := meets(ctx, s.aws.asked); err != nil {
		return nil, err
	}
	return s.model.Look(ctx)
}

func meets(ctx context.Context, c chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A pass puts what does not hang on another answer to AWS at the same time, and asks Slurm meanwhile: it has two node
// groups that choose by tag, and their subnets. Otherwise this pass ends by its deadlines.
func TestPassAsksSideBySide(t *testing.T) {
	w, _, _ := opened(t)
	aws := &together{within: within{w.sim.Handler()}, asked: make(chan struct{}), come: make(chan struct{}), slurm: make(chan struct{})}
	shared, err := awsconfig.Load(t.Context(), ec2.Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}
	shared.Config.HTTPClient = aws
	w.sources.EC2 = ec2.From(shared)
	w.sources = w.sources.at(&besideAWS{model: w.slurm, aws: aws}, nil)
	if _, err := w.pass(false); err != nil {
		t.Fatal(err)
	}
	if aws.calls < 3 {
		t.Errorf("AWS had %d calls, not 3", aws.calls)
	}
}
