// Pcs-capacity-suspend is Slurm's SuspendProgram and its ResumeFailProgram; see package power.
package main

import (
	"os"

	"github.com/pcs-capacity/pcs-capacity/hooks/power"
)

func main() { os.Exit(power.Suspend(os.Args[1:])) }
