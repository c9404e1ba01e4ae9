// Pcs-capacity-filter judges a job while it is being submitted; see package filter.
package main

import (
	"os"

	"github.com/pcs-capacity/pcs-capacity/internal/program/filter"
)

func main() { os.Exit(filter.Main(os.Args[1:])) }
