package awssim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Sim is one simulated AWS account. Make it with New and end it with Close.
type Sim struct {
	console  func(instanceID string) string // nil: consoles are empty
	scenario *Scenario
	clock    *Clock

	// mu guards everything below it. Handlers of operations and timers run with mu held.
	mu       sync.Mutex
	now      time.Time // of the request or timer that runs
	timers   timerHeap
	serial   uint64 // of the last id and timer
	searches uint64 // for blocks, so far
	regions  map[string]*region
	order    []string // region names as in the scenario
	ledger   []Purchase
	calls    map[CallKey]int
	faults   []*Fault
	cleared  chan struct{} // closed and replaced when the faults are cleared
	unpaid   bool          // payments fail
	lag      lags
	callers  map[string]map[string]bool // the operations that each access key has called, such as ec2:RunInstances
	buckets  map[CallKey]*bucket
	tokens   map[tokenKey]tokenUse
	changed  chan struct{} // closed and replaced after each change

	onInstance    []func(InstanceEvent)
	instanceHooks []func(InstanceEvent) // in-process services; called with mu held
	onResponse    []func(service, operation string, status int, body []byte)
	pending       []func()     // calls of listeners that are still to be made
	groupFailures []pcsFailure // of the next creations and updates of node groups
	wake, deliver chan struct{}
	stop          chan struct{}
	stopped       sync.WaitGroup
	server        *http.Server
	listener      net.Listener
	ec2, pcs      map[string]operation
	closeOnce     sync.Once
}

// New builds the world of the scenario, at the clock's present time, and starts the goroutines
// that follow the clock. A nil scenario is DefaultScenario, a nil clock MachineClock.
func New(sc *Scenario, clock *Clock) (*Sim, error) {
	if sc == nil {
		sc = DefaultScenario()
	}
	if clock == nil {
		clock = MachineClock()
	}
	clock.Advance(time.Duration(sc.ClockOffset))
	s := &Sim{
		scenario: sc, clock: clock, now: clock.Now(), unpaid: sc.FailPayments,
		regions: map[string]*region{}, calls: map[CallKey]int{},
		buckets: map[CallKey]*bucket{}, tokens: map[tokenKey]tokenUse{},
		callers: map[string]map[string]bool{},
		cleared: make(chan struct{}), changed: make(chan struct{}), wake: make(chan struct{}, 1), deliver: make(chan struct{}, 1),
		stop: make(chan struct{}),
	}
	s.lag.set(sc.Lag)
	s.ec2, s.pcs = s.ec2Operations(), s.pcsOperations()
	s.instanceHooks = append(s.instanceHooks, s.forgetInstance)
	if err := s.build(); err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	s.stopped.Add(2)
	go s.followClock()
	go s.deliverEvents()
	return s, nil
}

// Clock is the clock of the simulation.
func (s *Sim) Clock() *Clock { return s.clock }

// Listen serves on a loopback address such as 127.0.0.1:0 and returns the base URL.
func (s *Sim) Listen(addr string) (url string, err error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("address %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", fmt.Errorf("address %q is not loopback: the simulator checks no signatures, so it serves this machine only; use 127.0.0.1:PORT", addr)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return "", err
	}
	srv := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}
	s.mu.Lock()
	s.listener, s.server = ln, srv
	s.mu.Unlock()
	s.stopped.Add(1)
	go func() {
		defer s.stopped.Done()
		_ = srv.Serve(ln) // ends by Close
	}()
	return "http://" + ln.Addr().String(), nil
}

// Env lists the environment variables, as KEY=value, with which the AWS SDK and CLI reach a
// simulator that listens. The credentials are dummies.
func (s *Sim) Env() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	env := []string{
		"AWS_REGION=" + s.homeRegion(), "AWS_DEFAULT_REGION=" + s.homeRegion(),
		"AWS_ACCESS_KEY_ID=AKIASIMULATED", "AWS_SECRET_ACCESS_KEY=simulated",
	}
	if s.listener != nil {
		env = append([]string{"AWS_ENDPOINT_URL=http://" + s.listener.Addr().String()}, env...)
	}
	return env
}

// Serve listens on a free port of loopback and sets by setenv, such as that of a test, the
// environment of the AWS SDK, with more in it: KEY=value each.
func (s *Sim) Serve(setenv func(key, value string), more ...string) error {
	if _, err := s.Listen("127.0.0.1:0"); err != nil {
		return err
	}
	for _, variable := range append(s.Env(), more...) {
		key, value, _ := strings.Cut(variable, "=")
		setenv(key, value)
	}
	return nil
}

func (s *Sim) homeRegion() string {
	if s.scenario.Home != "" {
		return s.scenario.Home
	}
	return s.order[0]
}

// Close stops the server and the goroutines and waits for them. Events not yet delivered are lost.
func (s *Sim) Close() error {
	s.closeOnce.Do(func() {
		close(s.stop)
		s.mu.Lock()
		srv := s.server
		s.mu.Unlock()
		if srv != nil {
			_ = srv.Close()
		}
	})
	s.stopped.Wait()
	return nil
}

// OnInstance registers f, which is called for every instance that launches or terminates, in
// order, one call at a time, outside the lock: it may call any method of Sim but Close.
func (s *Sim) OnInstance(f func(InstanceEvent)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onInstance = append(s.onInstance, f)
}

// OnResponse registers f, which is called with the body of every answer of EC2 and PCS before it is sent.
func (s *Sim) OnResponse(f func(service, operation string, status int, body []byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onResponse = append(s.onResponse, f)
}

// Changed is closed when something in the world has changed.
func (s *Sim) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Wait returns when ok does, asking it again after each change of the world. ok runs outside the lock.
func (s *Sim) Wait(ctx context.Context, ok func() bool) error {
	for {
		changed := s.Changed()
		if ok() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.stop:
			return errors.New("simulator closed")
		}
	}
}

// do runs f with the lock held and the world brought up to the clock's time.
func (s *Sim) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock() // also when f panics: net/http recovers, and the next call must not hang
	s.settle(s.clock.Now())
	f()
	s.notify()
}

// notify tells the goroutines and waiters that the world may have changed. Called with mu held.
func (s *Sim) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
	for _, c := range []chan struct{}{s.wake, s.deliver} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
