package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// PingError is a heartbeat that was not taken.
type PingError struct{ error }

// Ping asks a URL, once: whoever watches it alarms people when it is asked no more.
func Ping(ctx context.Context, url string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return &PingError{errors.New("[notify] heartbeat is no URL")}
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil { // the URL may hold a secret
		return &PingError{fmt.Errorf("[notify] heartbeat at %s does not answer", request.URL.Host)}
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return &PingError{fmt.Errorf("[notify] heartbeat at %s answers %s", request.URL.Host, answer.Status)}
	}
	return nil
}

// Ping asks a URL beside the caller, and returns why the last one failed. One is asked at a time.
func (q *Queue) Ping(url string, timeout time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	last := q.pinged
	if !q.pinging {
		q.pinging = true
		q.pings.Go(func() {
			err := Ping(q.ctx, url, timeout)
			q.mu.Lock()
			defer q.mu.Unlock()
			q.pinging, q.pinged = false, err
		})
	}
	return last
}
