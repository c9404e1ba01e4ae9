package ec2

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

	"github.com/pcs-capacity/pcs-capacity/capacity"
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
	return &http.Response{StatusCode: a.status, Request: r, Header: http.Header{"Content-Type": {"text/xml"}}, Body: io.NopCloser(strings.NewReader(a.body))}, nil
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

// questions are what is asked of EC2 without an effect.
func questions(ctx context.Context, c *Client) {
	_, _ = c.AllReservations(ctx)
	_, _, _ = c.Reservations(ctx, []string{openBlock})
	_, _ = c.Offerings(ctx, OfferingQuery{InstanceType: "p5.48xlarge", Count: 1, Duration: 24 * time.Hour})
	_, _ = c.ExtensionOfferings(ctx, openBlock, 24*time.Hour)
	_, _ = c.Extensions(ctx, openBlock)
	_, _ = c.InstancesByTag(ctx, map[string][]string{"team": {"nlp"}})
	_, _ = c.VPCSubnets(ctx, []string{"subnet-0e200000000000a01"})
	_, _ = c.InstanceTypes(ctx, []string{"p5.48xlarge"})
	_, _, _ = c.LaunchTemplate(ctx, "lt-0aaaaaaaaaaaaaaa1", "1")
	_, _ = c.SecurityGroups(ctx, []string{"sg-01ab0000000000001"})
	_, _ = c.ReservationTopology(ctx, []string{openBlock})
	_, _ = c.InstanceTopology(ctx, []string{"i-01234567890abcdef"})
	_, _ = c.Zones(ctx)
	_, _ = c.Regions(ctx)
	if _, err := c.Account(ctx); err != nil {
		_, _ = c.Explain(err)
	}
}

// orders are what changes something.
func orders(ctx context.Context, c *Client) {
	tags := map[string]string{capacity.TagCluster: "ml"}
	_, _ = c.EnsureLaunchTemplate(ctx, capacity.LaunchTemplateSpec{Name: "x", From: "lt-0aaaaaaaaaaaaaaa1", FromVersion: "1", InstanceType: "p5.48xlarge", EFA: capacity.EFAOnly, Tags: tags})
	_, _ = c.Launch(ctx, capacity.Launch{ClientToken: "x", LaunchTemplate: "lt-0aaaaaaaaaaaaaaa1:1", InstanceType: "p5.48xlarge", ReservationID: openBlock, Kind: capacity.CapacityBlock, Count: 1, Tags: tags})
	_, _ = c.Hold(ctx, capacity.HoldOrder{Tags: tags})
	_, _ = c.Purchase(ctx, "cb-0123456789abcdef0", "Linux/UNIX", tags)
	_, _ = c.PurchaseExtension(ctx, "cb-0123456789abcdef0", openBlock)
	_ = c.Terminate(ctx, []string{"i-01234567890abcdef"})
	_ = c.Release(ctx, openBlock)
	_ = c.DeleteLaunchTemplate(ctx, "x", "ml")
}

// Whatever EC2 answers is read or refused.
func FuzzAnswers(f *testing.F) {
	sim, err := awssim.New(nil, awssim.NewClock(noon, 0))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = sim.Close() })
	if err := sim.Serve(f.Setenv); err != nil {
		f.Fatal(err)
	}
	load := func() *awsconfig.Shared {
		shared, err := awsconfig.Load(context.Background(), Options{})
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
	f.Add(503, `<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>x</Message></Error></Errors></Response>`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 {
			return
		}
		shared := load()
		shared.Config.HTTPClient = &answerer{status: status, body: body}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := From(shared)
		c.shared.refill, c.shared.settle = 0, 0
		questions(ctx, c)
		orders(ctx, c)
	})
}
