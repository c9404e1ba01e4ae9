package state

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Lease has one of the services that share a state_dir make the passes, while the others stand by.
// It is [WatchLock], renewed while it is held. The kernel's lock is not enough: other hosts may not
// see it, and a stopped program keeps it.
type Lease struct {
	Dir Dir
	// After is how long a lease must stay unrenewed until another service takes it, by the clock of
	// that service alone; 0 is [LeaseTime].
	After time.Duration

	mu    sync.Mutex
	claim *Claim
	end   func() // of the renewals
	// seen is the holder that was read last, unchanged since then.
	seen  Holder
	since time.Time
}

// LeaseTime is how long a service may be silent before another one takes over. A service that
// stands by looks every ninth of it: the passes go on within two minutes.
const LeaseTime = 90 * time.Second

// turn is what a service does about a lease that it does not have.
type turn int

const (
	standBy  turn = iota
	take          // it is free, or its holder is dead
	takeOver      // its holder is silent: stopped, cut off, or on a host that is gone
)

// leaseView is what a service sees of a lease.
type leaseView struct {
	// locked: another process has the kernel's lock.
	locked bool
	holder Holder
	// exact: the holder, if it lives, has the kernel's lock where this host sees it.
	exact bool
	// unchanged is how long the holder has been read without a change.
	unchanged time.Duration
}

// turnOf decides who makes the passes.
func turnOf(v leaseView, after time.Duration) turn {
	nobody := v.holder == Holder{}
	switch {
	case !v.locked && (nobody || v.exact):
		return take
	case nobody: // it begins, or its disk is full
		return standBy
	case v.unchanged >= after:
		return takeOver
	}
	return standBy
}

// after is After, or its default.
func (l *Lease) after() time.Duration {
	if l.After == 0 {
		return LeaseTime
	}
	return l.After
}

// Silence is how long a service has been silent that another one takes over from.
func (l *Lease) Silence() time.Duration { return l.after() }

// Look is the time between two tries to take the lease.
func (l *Lease) Look() time.Duration { return l.after() / 9 }

// Try takes the lease, unless another service has it: then held is false, and holder says which.
// from is the service that the lease was taken over from, if any.
func (l *Lease) Try() (held bool, holder, from Holder, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.claim != nil && l.claim.Check() == nil {
		return true, l.claim.holder, Holder{}, nil
	}
	l.drop()
	in, err := l.Dir.private()
	if err != nil {
		return false, Holder{}, Holder{}, fmt.Errorf("locking %s: %w", l.Dir, err)
	}
	defer in.close()
	f, locked, err := in.try(WatchLock)
	if err != nil {
		return false, Holder{}, Holder{}, fmt.Errorf("locking %s: %w", filepath.Join(in.path, string(WatchLock)), err)
	}
	now, v := time.Now(), leaseView{locked: locked, holder: readHolder(f)}
	v.exact = v.holder.Boot == Here.Boot() || Here.Alone(l.Dir)
	if v.holder != l.seen {
		l.seen, l.since = v.holder, now
	}
	v.unchanged = now.Sub(l.since)
	switch turnOf(v, l.after()) {
	case standBy:
		return false, v.holder, Holder{}, f.Close()
	case takeOver:
		from = v.holder
		if f, err = in.replace(f, locked, from); f == nil {
			return false, v.holder, Holder{}, err
		}
	}
	l.claim = l.Dir.claimed(in, WatchLock, f)
	l.renew()
	return true, l.claim.holder, from, nil
}

// replace is the file for a lease that is taken over: the one that is there if its lock is free,
// else a new one. The lock for a pass of that holder ends with it. nil: it has been renewed since.
func (f *folder) replace(file *os.File, locked bool, from Holder) (*os.File, error) {
	if err := f.takeAway(PassLock, from.process); err != nil {
		_ = file.Close()
		return nil, err
	}
	if !locked {
		return file, nil
	}
	_ = file.Close()
	if err := f.takeAway(WatchLock, func(h Holder) bool { return h == from }); err != nil {
		return nil, err
	}
	file, locked, err := f.try(WatchLock)
	if err == nil && locked {
		_ = file.Close()
		return nil, nil
	}
	return file, err
}

// renew renews the claim until it is lost or dropped.
func (l *Lease) renew() {
	claim, stop, ended := l.claim, make(chan struct{}), make(chan struct{})
	l.end = sync.OnceFunc(func() {
		close(stop)
		<-ended // it writes nothing after the claim was given back
	})
	go func() {
		defer close(ended)
		tick := time.NewTicker(l.after() / 6)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if _, lost := claim.beat().(*LostError); lost {
					return
				}
			}
		}
	}()
}

// drop forgets a claim that is lost.
func (l *Lease) drop() {
	if l.claim != nil {
		l.end()
		l.claim.Release()
		l.claim = nil
	}
}

// Check returns an error unless this program has the lease.
func (l *Lease) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.claim == nil {
		return &LostError{Lock: WatchLock}
	}
	return l.claim.Check()
}

// Release gives the lease back: another service takes it at its next look.
func (l *Lease) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}

// Watcher is the service that makes the passes with a state_dir, as far as this host can see: one
// on another host runs if it has renewed its lease of late, by the two hosts' clocks.
func (d Dir) Watcher() (holder Holder, runs bool, err error) {
	in, err := d.private()
	if err != nil {
		return holder, false, err
	}
	defer in.close()
	f, locked, err := in.try(WatchLock)
	if err != nil {
		return holder, false, err
	}
	defer f.Close()
	holder = readHolder(f)
	late := time.Since(holder.At).Abs() > 2*LeaseTime
	return holder, locked || holder.PID != 0 && holder.Boot != Here.Boot() && !late, nil
}
