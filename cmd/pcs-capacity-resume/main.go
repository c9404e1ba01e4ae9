// Pcs-capacity-resume is Slurm's ResumeProgram; see package power.
package main

import (
	"os"

	"github.com/pcs-capacity/pcs-capacity/internal/program/power"
)

func main() { os.Exit(power.Resume(os.Args[1:])) }
