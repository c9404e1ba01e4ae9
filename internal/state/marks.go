package state

import (
	"maps"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

const marksFile = "marks.json"

// Mark is the memory of a pass about a job: above all its comment before it started.
type Mark struct {
	// Restarts counts the runs before: each start has a mark of its own.
	Restarts int `json:"restarts,omitempty"`
	// Fit: the limit is ours to fit to the fence, up to UpTo minutes if that is not 0.
	Fit  bool `json:"fit,omitempty"`
	UpTo int  `json:"up_to,omitempty"`
	// OnEnd is the job's request for the fence; "" leaves it to its partition.
	OnEnd capacity.OnEnd `json:"on_end,omitempty"`
	// Told is how many minutes before the fence the job got its last message about it; 0 for none
	// yet.
	Told int `json:"told,omitempty"`
	// Ends counts the fences at which the job has been requeued since its owner released it,
	// EndedAt is the last of them, in Unix seconds of Slurm's clock.
	Ends    int   `json:"ends,omitempty"`
	EndedAt int64 `json:"ended_at,omitempty"`
	// Ending: it is being requeued at a fence, and some steps of that are left.
	Ending bool `json:"ending,omitempty"`
	// Release: it is held only while that is done.
	Release bool `json:"release,omitempty"`
	// Cut is the limit in minutes to which sync has lowered it, From the one before: -1 for none. Zero while the limit
	// is the owner's.
	Cut  int `json:"cut,omitempty"`
	From int `json:"from,omitempty"`
}

// EndAt counts a fence at which the job is requeued, once. A job that starts again in front of
// the same fence, within a minute of it, is not counted again.
func (m *Mark) EndAt(fence time.Time) {
	if !m.EndedBy(fence) {
		m.Ends, m.EndedAt = m.Ends+1, fence.Unix()
	}
}

// EndedBy reports whether the fence is the one that was counted last.
func (m Mark) EndedBy(fence time.Time) bool {
	return time.Unix(m.EndedAt, 0).Sub(fence).Abs() < time.Minute
}

// CutTo notes a new limit of a job that had another: what the job had at first counts.
func (m *Mark) CutTo(minutes int, had capacity.Limit) {
	if m.From == 0 {
		if m.From = had.Minutes; !had.Bounded() {
			m.From = -1
		}
	}
	if m.Cut = minutes; minutes == m.From {
		m.Cut, m.From = 0, 0
	}
}

// Stated is the limit that a job's owner stated, if it has this one now; none where the limit is ours to set.
func (m Mark) Stated(limit capacity.Limit) capacity.Limit {
	switch {
	case m.Fit || m.From < 0:
		return capacity.Limit{}
	case m.From > 0:
		return capacity.Minutes(m.From)
	}
	return limit
}

// Cuts reports whether a limit is the one that sync has set. That of a job that had none may be shorter: Slurm counts it
// from when the limit was taken off.
func (m Mark) Cuts(limit capacity.Limit) bool {
	return m.From != 0 && limit.Bounded() && (limit.Minutes == m.Cut || m.From < 0 && limit.Minutes < m.Cut)
}

func (d Dir) marks() file[map[string]Mark] {
	return file[map[string]Mark]{dir: d, name: marksFile, reading: "reading the marks of jobs", keeping: "keeping the marks of jobs"}
}

// Marks are those that the last pass knew, by job; none if there is no file.
func (d Dir) Marks() (map[string]Mark, error) { return d.marks().read() }

// KeepMarks writes the marks for the next pass, if they are not those of before.
func (d Dir) KeepMarks(marks map[string]Mark) error {
	if before, err := d.Marks(); err == nil && maps.Equal(marks, before) {
		return nil
	}
	return d.marks().write(marks)
}
