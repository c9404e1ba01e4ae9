// Package bench compares pcs-capacity with the least that the same work can cost. Its
// benchmarks report a ratio, never a bare time.
package bench
