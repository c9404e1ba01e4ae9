package state

import (
	"encoding/json"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

const jobRecordsFile = "marks.json"

// JobRecords keeps the job records that the last pass knew, by job.
func (d Dir) JobRecords() File[map[string]JobRecord] {
	return File[map[string]JobRecord]{d, jobRecordsFile, "the job records", false}
}

// JobRecord keeps what a pass must know about a job in later passes. Limits are in minutes.
type JobRecord struct {
	// Restarts counts the runs before this one; each start has a record of its own.
	Restarts int `json:"restarts,omitempty"`

	Wanted
	Seen

	// WarnedMinutes says how many minutes before the fence the job got its last warning; 0 for none yet.
	WarnedMinutes int `json:"told,omitempty"`

	// HadTimeMin: the job has waited with a --time-min. sync gives none to a job whose owner has taken it away.
	HadTimeMin bool `json:"had_time_min,omitempty"`
	// RanMinutes is how long the job has run up to the fences at which it was requeued.
	RanMinutes int `json:"ran,omitempty"`

	// FenceRequeues counts the fences at which the job was requeued since its owner last released it, or since a run
	// that was longer than min_time.
	FenceRequeues int `json:"ends,omitempty"`
	// LastFence is the last of these fences, in Unix seconds of Slurm's clock.
	LastFence int64 `json:"ended_at,omitempty"`

	// Ending is the requeue at a fence that is under way; nil for none. It is replaced, never changed.
	Ending *Ending `json:"requeue,omitempty"`
	// Unused says how often capacity was held for the job in vain while it waited; nil for never. It is replaced, never
	// changed.
	Unused *Unused `json:"unused,omitempty"`
	// Cut says that sync has lowered the job's limit; nil while it has the owner's. It is replaced, never changed.
	Cut *Cut `json:"lowered,omitempty"`
}

// Wanted has what the job's owner asked for. It is read before the job starts, and counts until it ends.
type Wanted struct {
	// OnEnd is what the job's comment asked for at the fence; "" leaves it to the partition.
	OnEnd capacity.OnEnd `json:"on_end,omitempty"`
	// Fit: sync fits the job's limit to the fence.
	Fit bool `json:"fit,omitempty"`
	// Minutes is the limit that the owner of a job with Fit has stated, and past which sync never raises it; 0 for none.
	Minutes int `json:"up_to,omitempty"`
}

// Seen has the limits of a job with Fit that a pass knew: any other was set by somebody else.
type Seen struct {
	// SeenMinutes is the limit that the pass saw; 0 for none.
	SeenMinutes int `json:"saw,omitempty"`
	// SetMinutes is the limit that the pass then set; 0 if it set none.
	SetMinutes int `json:"set,omitempty"`
	// Started: SeenMinutes is the limit of the run. At a start, Slurm itself may shorten a limit.
	Started bool `json:"started,omitempty"`
}

// Ending describes a requeue at a fence of which some steps may remain.
type Ending struct {
	// Release: the job is held only until these steps are done.
	Release bool `json:"release,omitempty"`
}

// Unused counts the ODCRs for a waiting job that Slurm did not start.
type Unused struct {
	Times int   `json:"times"`
	At    int64 `json:"at"` // the last time, in Unix seconds of AWS's clock
}

// Cut describes a limit that sync has lowered to a fence.
type Cut struct {
	// Minutes is the limit that sync has set.
	Minutes int `json:"minutes"`
	// Own is the limit that the job had before; unset if it had none.
	Own capacity.Limit `json:"own,omitzero"`
}

// UnmarshalJSON also reads the records of versions that wrote Ending and Cut beside the other fields.
func (m *JobRecord) UnmarshalJSON(text []byte) error {
	type current JobRecord // without this method

	read := struct {
		*current
		Ending  bool `json:"ending"`
		Release bool `json:"release"`
		Cut     int  `json:"cut"`
		Own     int  `json:"from"` // -1 for none
	}{current: (*current)(m)}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}

	if read.Ending {
		m.Ending = &Ending{read.Release}
	}

	if read.Cut > 0 {
		m.Cut = &Cut{Minutes: read.Cut}
		if read.Own > 0 {
			m.Cut.Own = capacity.Minutes(read.Own)
		}
	}

	return nil
}

// CountFence counts a fence at which the job is requeued, once. A job that starts again in front of
// the same fence, within a minute of it, is not counted again.
func (m *JobRecord) CountFence(fence time.Time) {
	if !m.HasCounted(fence) {
		m.FenceRequeues, m.LastFence = m.FenceRequeues+1, fence.Unix()
	}
}

// HasCounted reports whether the fence is the one that was counted last.
func (m JobRecord) HasCounted(fence time.Time) bool {
	return time.Unix(m.LastFence, 0).Sub(fence).Abs() < time.Minute
}

// RecordCut records that sync lowers the limit, or raises it again, up to the one that the job had first.
func (m *JobRecord) RecordCut(minutes int, had capacity.Limit) {
	cut := Cut{Minutes: minutes}
	switch {
	case m.Cut != nil:
		cut.Own = m.Cut.Own
	case had.Bounded():
		cut.Own = had
	}

	m.Cut = &cut
	if cut.Own == capacity.Minutes(minutes) {
		m.Cut = nil
	}
}

// HasOwnLimit reports whether the job's limit is its owner's: neither Slurm nor sync has chosen or lowered it.
func (m JobRecord) HasOwnLimit(limit capacity.Limit) bool {
	whole := m.Wanted.Minutes > 0 && limit.Minutes >= m.Wanted.Minutes
	return (!m.Fit || whole) && m.Cut == nil
}

// StatedLimit returns the limit that the job's owner stated, if limit is its present one; unset if sync chooses it.
func (m JobRecord) StatedLimit(limit capacity.Limit) capacity.Limit {
	switch {
	case m.Fit && m.Wanted.Minutes > 0:
		return capacity.Minutes(m.Wanted.Minutes)
	case m.Fit:
		return capacity.Limit{}
	case m.Cut != nil:
		return m.Cut.Own
	}

	return limit
}

// ChangedByOthers reports whether somebody else has set this limit since the pass saw the job in the same state.
func (m JobRecord) ChangedByOthers(limit capacity.Limit, restarts int, started bool) bool {
	known := m.Fit && m.SeenMinutes != 0 && m.Restarts == restarts && m.Started == started
	return known && limit.Minutes != m.SeenMinutes && limit.Minutes != m.SetMinutes
}

// IsOwnCut reports whether a limit is the one that sync has set. That of a job that had none may be shorter: Slurm
// counts it from when the limit was taken off.
func (m JobRecord) IsOwnCut(limit capacity.Limit) bool {
	return m.Cut != nil && limit.Bounded() &&
		(limit.Minutes == m.Cut.Minutes || !m.Cut.Own.Set && limit.Minutes < m.Cut.Minutes)
}
