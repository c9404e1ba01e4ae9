package pcs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// answerer is an AWS that answers as it is told, a hundred times: a page may name a next one
// for ever.
type answerer struct {
	status int
	body   string
	asked  atomic.Int32
}

func (a *answerer) Do(r *http.Request) (*http.Response, error) {
	if a.asked.Add(1) > 100 {
		return nil, errors.New("silence")
	}
	return &http.Response{StatusCode: a.status, Request: r, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

// recorder keeps what the simulated AWS answers.
type recorder struct {
	mu      sync.Mutex
	answers []string
}

func (r *recorder) Do(request *http.Request) (*http.Response, error) {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers, response.Body = append(r.answers, string(body)), io.NopCloser(bytes.NewReader(body))
	return response, err
}

// questions are what is asked of PCS without an effect.
func questions(ctx context.Context, c *Client) {
	_, _ = c.Clusters(ctx)
	_, _ = c.Cluster(ctx, "ml")
	_, _ = c.Inventory(ctx, "ml")
	_, _, _ = c.NodeGroup(ctx, "ml", "compute")
	_, _, _ = c.Queue(ctx, "ml", "gpu")
	_, _ = c.Slots(ctx, "ml", []string{"compute"})
	_, _ = c.RoleOf(ctx, "arn:aws:iam::111122223333:instance-profile/AWSPCS-lab")
}

// Whatever PCS answers is read or refused.
func FuzzAnswers(f *testing.F) {
	sim, err := awssim.New(nil, awssim.NewClock(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), 0))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = sim.Close() })
	if err := sim.Serve(f.Setenv); err != nil {
		f.Fatal(err)
	}
	load := func() *awsconfig.Shared {
		shared, err := awsconfig.Load(context.Background(), awsconfig.Options{})
		if err != nil {
			f.Fatal(err)
		}
		shared.Config.RetryMaxAttempts = 1
		return shared
	}
	recorded, shared := &recorder{}, load()
	shared.Config.HTTPClient = recorded
	questions(context.Background(), From(shared))
	for _, answer := range recorded.answers {
		f.Add(200, answer)
	}
	f.Add(400, `{"__type":"ConflictException","message":"x"}`)
	f.Add(200, `{}`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 {
			return
		}
		shared := load()
		shared.Config.HTTPClient = &answerer{status: status, body: body}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		questions(ctx, From(shared))
	})
}
