package lifecycle

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// slowly is an AWS that takes its time, and counts the calls that it has at once.
type slowly struct {
	within
	mu        sync.Mutex
	now, most int
}

func (s *slowly) Do(r *http.Request) (*http.Response, error) {
	s.begin(1)
	defer s.begin(-1)
	time.Sleep(50 * time.Millisecond)
	return s.within.Do(r)
}

func (s *slowly) begin(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += n
	s.most = max(s.most, s.now)
}

// besideAWS is a Slurm that answers once AWS has been asked, and not yet answered.
type besideAWS struct {
	*model
	aws    *slowly
	beside bool
}

func (s *besideAWS) Look(ctx context.Context) (*Cluster, error) {
	for deadline := time.Now().Add(5 * time.Second); !s.beside && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		s.aws.mu.Lock()
		s.beside = s.aws.now > 0
		s.aws.mu.Unlock()
	}
	return s.model.Look(ctx)
}

// A pass puts what does not hang on another answer to AWS at the same time, and asks Slurm
// meanwhile.
func TestPassAsksSideBySide(t *testing.T) {
	w, _, _ := opened(t)
	aws := &slowly{within: within{w.sim.Handler()}}
	shared, err := awsconfig.Load(t.Context(), ec2.Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}
	shared.Config.HTTPClient = aws
	slurm := &besideAWS{model: w.slurm, aws: aws}
	w.sources.EC2 = ec2.From(shared)
	w.sources = w.sources.at(slurm, nil)
	if _, err := w.pass(false); err != nil {
		t.Fatal(err)
	}
	// It has two node groups that choose by tag, and their subnets.
	if aws.most < 3 {
		t.Errorf("AWS had %d calls at once, not 3", aws.most)
	}
	if !slurm.beside {
		t.Error("Slurm was asked when AWS had answered")
	}
}
