package awssim

import (
	"container/heap"
	"time"
)

// timer is something that happens at a time. run must look again whether it still applies, since
// timers are never removed.
type timer struct {
	at     time.Time
	serial uint64
	run    func()
}

type timerHeap []timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].serial < h[j].serial
	}
	return h[i].at.Before(h[j].at)
}
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(timer)) }
func (h *timerHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// at has run called, with mu held and s.now set, when the clock reaches t; a past t means as soon as
// the world is looked at again.
func (s *Sim) at(t time.Time, run func()) {
	s.serial++
	heap.Push(&s.timers, timer{at: t, serial: s.serial, run: run})
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
		t := heap.Pop(&s.timers).(timer)
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
