// Package awssimtest has what the tests of the AWS clients, ec2 and pcs, share: inputs for fuzzing their answers.
package awssimtest

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

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

// mostAnswers bounds a conversation: each page may name a next page.
const mostAnswers = 100

// answerer answers every request alike, mostAnswers times.
type answerer struct {
	contentType, body string
	status            int
	asked             atomic.Int32
}

func (a *answerer) Do(r *http.Request) (*http.Response, error) {
	if a.asked.Add(1) > mostAnswers {
		return nil, errors.New("silence")
	}

	return &http.Response{
		StatusCode: a.status,
		Request:    r,
		Header:     http.Header{"Content-Type": {a.contentType}},
		Body:       io.NopCloser(strings.NewReader(a.body)),
	}, nil
}

// recorder keeps the answers of the simulated AWS.
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

// FuzzAnswers gives a client any status and body in answer to its calls. The corpus begins with the
// answers of the simulated AWS to reads, and with refusal, an answer of AWS of status 400. Calls may
// have effects; reads may not. A call has to return within a second, whatever its result.
func FuzzAnswers(
	f *testing.F,
	now time.Time,
	contentType, refusal string,
	reads, calls func(context.Context, *awsconfig.Shared),
) {
	sim, err := awssim.New(nil, awssim.NewClock(now, 0))
	if err != nil {
		f.Fatal(err)
	}

	f.Cleanup(func() { _ = sim.Close() })

	if err := sim.Serve(f.Setenv); err != nil {
		f.Fatal(err)
	}

	load := func(client aws.HTTPClient) *awsconfig.Shared {
		shared, err := awsconfig.Load(context.Background(), awsconfig.Options{})
		if err != nil {
			f.Fatal(err)
		}

		shared.Config.RetryMaxAttempts = 1
		shared.Config.HTTPClient = client

		return shared
	}
	recorded := &recorder{}
	reads(context.Background(), load(recorded))

	for _, answer := range recorded.answers {
		f.Add(200, answer)
	}

	f.Add(400, refusal)
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 {
			return
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		calls(ctx, load(&answerer{contentType: contentType, body: body, status: status}))
	})
}
