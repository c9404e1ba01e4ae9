package main

import (
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
)

// ownProcess is [hookstest.OwnProcess].
func ownProcess(t *testing.T) bool {
	t.Helper()
	return hookstest.OwnProcess(t)
}
