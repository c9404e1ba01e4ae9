package awssim

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Sim is one simulated AWS account. Make it with New and end it with Close.
type Sim struct {
	console  func(instanceID string) string // nil: consoles are empty
	scenario *Scenario
	clock    *Clock

	// mu guards everything below it. Handlers of operations and timers run with mu held.
	mu       sync.Mutex
	now      time.Time // of the request or timer that runs
	timers   []timer   // by their time
	serial   uint64    // of the last id
	searches uint64    // for blocks, so far
	regions  map[string]*region
	order    []string // region names as in the scenario
	ledger   []Purchase
	calls    map[CallKey]int
	faults   []*Fault
	cleared  chan struct{} // closed and replaced when the faults are cleared
	unpaid   bool          // payments fail
	lag      Lag
	callers  map[string]map[string]bool // the operations that each access key has called, such as ec2:RunInstances
	buckets  map[CallKey]*rate.Limiter
	tokens   map[tokenKey]tokenUse

	onInstance    []func(InstanceEvent)
	onResponse    []func(service, operation string, status int, body []byte)
	pending       []func() // calls of listeners that are still to be made
	wake, deliver chan struct{}
	stop          chan struct{}
	stopped       sync.WaitGroup
	server        *http.Server
	listener      net.Listener
	closeOnce     sync.Once

	ec2, pcs, groups map[string]operation
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
		scenario: sc,
		clock:    clock,
		now:      clock.Now(),
		unpaid:   sc.FailPayments,
		lag:      sc.Lag,
		regions:  map[string]*region{},
		calls:    map[CallKey]int{},
		buckets:  map[CallKey]*rate.Limiter{},
		tokens:   map[tokenKey]tokenUse{},
		callers:  map[string]map[string]bool{},
		cleared:  make(chan struct{}),
		wake:     make(chan struct{}, 1),
		deliver:  make(chan struct{}, 1),
		stop:     make(chan struct{}),
	}

	s.ec2, s.pcs = s.ec2Operations(), s.pcsOperations()
	s.groups = s.groupsOperations()

	if err := s.build(); err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}

	s.stopped.Add(2)
	go s.followClock()
	go s.deliverEvents()

	return s, nil
}

// Clock returns the clock of the simulation.
func (s *Sim) Clock() *Clock { return s.clock }

// Listen serves on a loopback address such as 127.0.0.1:0 and returns the base URL.
func (s *Sim) Listen(addr string) (url string, err error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("address %q: %w", addr, err)
	}

	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", fmt.Errorf(
			"address %q is not loopback: the simulator checks no signatures, so it serves this machine only; use "+
				"127.0.0.1:PORT",
			addr,
		)
	}

	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return "", err
	}

	srv := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}
	s.mu.Lock()

	s.listener = ln

	s.server = srv
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
		"PCS_CAPACITY_ONLY_BUYER=true",
	} // in an account of one's own
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

// OnResponse registers f, which is called with the body of every answer of AWS before it is sent.
func (s *Sim) OnResponse(f func(service, operation string, status int, body []byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.onResponse = append(s.onResponse, f)
}

// do runs f with the lock held and the world brought up to the clock's time.
func (s *Sim) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock() // also when f panics: net/http recovers, and the next call must not hang

	s.settle(s.clock.Now())
	f()
	s.notify()
}

// notify tells the goroutines that the world may have changed. Called with mu held.
func (s *Sim) notify() {
	for _, c := range []chan struct{}{s.wake, s.deliver} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// timer is something that happens at a time. run must look again whether it still applies, since
// timers are never removed.
type timer struct {
	at  time.Time
	run func()
}

// at has run called, with mu held and s.now set, when the clock reaches t; a past t means as soon as
// the world is looked at again.
func (s *Sim) at(t time.Time, run func()) {
	later := slices.IndexFunc(s.timers, func(other timer) bool { return other.at.After(t) })
	if later < 0 {
		later = len(s.timers)
	}

	s.timers = slices.Insert(s.timers, later, timer{t, run})
}

// later has run called after d, or now when d is not positive. Called with mu held.
func (s *Sim) later(d time.Duration, run func()) {
	if d <= 0 {
		run()
		return
	}

	s.at(s.now.Add(d), run)
}

// settle runs every due timer in the order of time, each at its own time, and leaves s.now at now.
func (s *Sim) settle(now time.Time) {
	for len(s.timers) > 0 && !s.timers[0].at.After(now) {
		t := s.timers[0]
		s.timers = s.timers[1:]
		s.now = t.at
		t.run()
	}

	s.now = now
}

// followClock settles the world at each transition: the effects of time need no request.
func (s *Sim) followClock() {
	defer s.stopped.Done()

	for {
		clockChanged := s.clock.Changed()
		s.mu.Lock()
		if len(s.timers) > 0 && !s.timers[0].at.After(s.clock.Now()) {
			s.settle(s.clock.Now())
			s.notify()
		}

		var due <-chan time.Time
		if len(s.timers) > 0 {
			if wait, ok := s.clock.Until(s.timers[0].at); ok {
				due = time.After(wait)
			}
		}
		s.mu.Unlock()

		select {
		case <-s.stop:
			return
		case <-clockChanged:
		case <-s.wake:
		case <-due:
		}
	}
}

// InstanceEventKind is the kind of event of an instance.
type InstanceEventKind string

const (
	Launched   InstanceEventKind = "launched"    // RunInstances has taken effect; the instance is pending
	Terminated InstanceEventKind = "terminated"  // it is shutting down, for any reason
	HostFailed InstanceEventKind = "host-failed" // its host is dead; EC2 still calls it running
)

// InstanceEvent is a change of one instance.
type InstanceEvent struct {
	Kind     InstanceEventKind
	At       time.Time // simulated
	Reason   string    // of a termination: EC2's state reason code
	Instance Instance  // a copy, as it was at the event
}

// Instance is an instance as listeners and tests see it.
type Instance struct {
	ID             string            `json:"id"`
	Region         string            `json:"region"`
	Zone           string            `json:"zone"`
	Type           string            `json:"type"`
	State          string            `json:"state"` // pending, running, shutting-down, terminated
	PrivateIP      string            `json:"private_ip"`
	SubnetID       string            `json:"subnet_id"`
	ImageID        string            `json:"image_id"`
	ReservationID  string            `json:"capacity_reservation_id,omitempty"`
	BlockID        string            `json:"capacity_block_id,omitempty"`
	Lifecycle      string            `json:"lifecycle,omitempty"` // capacity-block, interruptible-capacity-reservation or empty
	LaunchID       string            `json:"launch_id"`           // EC2's r-… of the RunInstances call
	AMILaunchIndex int               `json:"ami_launch_index"`
	LaunchTime     time.Time         `json:"launch_time"`
	UserData       string            `json:"user_data,omitempty"` // base64, as in the request
	Tags           map[string]string `json:"tags,omitempty"`
	HostFailed     bool              `json:"host_failed,omitempty"`
}

// emit queues an event for OnInstance and tells the in-process services now. Called with mu held.
func (s *Sim) emit(kind InstanceEventKind, reason string, i *instance) {
	ev := InstanceEvent{Kind: kind, At: s.now, Reason: reason, Instance: i.view()}
	s.forgetInstance(ev)
	s.pending = append(s.pending, func() {
		s.mu.Lock()
		listeners := slices.Clone(s.onInstance)
		s.mu.Unlock()

		for _, f := range listeners {
			f(ev)
		}
	})
}

// deliverEvents calls the listeners, in order, without the lock.
func (s *Sim) deliverEvents() {
	defer s.stopped.Done()

	for {
		s.mu.Lock()
		calls := s.pending
		s.pending = nil
		s.mu.Unlock()

		for _, call := range calls {
			call()
		}

		select {
		case <-s.stop:
			return
		case <-s.deliver:
		}
	}
}
