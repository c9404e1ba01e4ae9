// Pcs-capacity-resume is Slurm's ResumeProgram; see package hooks/power.
package main

import (
	"os"

	"github.com/pcs-capacity/pcs-capacity/hooks/power"
)

func main() { os.Exit(power.Resume(os.Args[1:])) }
