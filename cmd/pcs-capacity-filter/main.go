// Pcs-capacity-filter judges a job while it is being submitted; see package hooks/submit.
package main

import (
	"os"

	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
)

func main() { os.Exit(submit.Main(os.Args[1:])) }
