package slurm

import "testing"

// A job is where its state says, or the flag that squeue shows instead.
func TestSplitState(t *testing.T) {
	for word, want := range map[string]string{
		"PENDING": "PENDING", "RUNNING": "RUNNING", "SUSPENDED": "SUSPENDED", "COMPLETED": "COMPLETED", "CANCELLED": "CANCELLED", "FAILED": "FAILED",
		"TIMEOUT": "TIMEOUT", "NODE_FAIL": "NODE_FAIL", "PREEMPTED": "PREEMPTED", "BOOT_FAIL": "BOOT_FAIL", "DEADLINE": "DEADLINE", "OUT_OF_MEMORY": "OUT_OF_MEMORY",
	} {
		if base, flag := splitState(word); base != want || flag != "" {
			t.Errorf("%s: %s %v", word, base, flag)
		}
	}
	for flag, want := range map[string]string{
		"CONFIGURING": "RUNNING", "RESIZING": "RUNNING", "SIGNALING": "RUNNING", "STAGE_OUT": "RUNNING", "STOPPED": "RUNNING",
		"REQUEUED": "PENDING", "REQUEUE_FED": "PENDING", "REQUEUE_HOLD": "PENDING", "RESV_DEL_HOLD": "PENDING", "SPECIAL_EXIT": "PENDING",
		"EXPEDITING": "PENDING",                            // from 25.11, after a requeue with --requeue=expedite
		"COMPLETING": "COMPLETING", "LAUNCHED": "LAUNCHED", // which of the states it is nobody knows
	} {
		if base, got := splitState(flag); base != want || got != flag {
			t.Errorf("%s: %s %v", flag, base, got)
		}
	}
}
