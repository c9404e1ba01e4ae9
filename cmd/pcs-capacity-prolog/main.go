// Pcs-capacity-prolog is a Prolog and a TaskProlog for Slurm; see package hooks/prolog.
package main

import (
	"os"

	"github.com/pcs-capacity/pcs-capacity/hooks/prolog"
)

func main() { os.Exit(prolog.Main(os.Args[1:])) }
