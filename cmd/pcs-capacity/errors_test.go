package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// asksFor are commands that make a call; the empty call stands for any.
var asksFor = map[string][]string{
	"":                                        {"list"},
	"DescribeCapacityReservations":            {"list", "cr-0e2000000000000a1"},
	"DescribeCapacityBlockOfferings":          {"offerings", "--instance-type=p5.48xlarge", "--count=4", "--duration=7d"},
	"PurchaseCapacityBlock":                   purchases["purchase"],
	"PurchaseCapacityBlockExtension":          purchases["extend"],
	"DescribeCapacityBlockExtensionOfferings": purchases["extend"],
	"CreateCapacityReservation":               {"reserve", "--probe", "-t", "g6.12xlarge", "-n", "1", "--subnet-ids", "subnet-0e200000000000a01"},
}

// Every code of EC2 that a command can meet is shown, with what to do about it. Those of
// launches are shown by Slurm (TestR12_LaunchCodesComeWithAdvice), those of PCS by setup
// and teardown (TestExceptionsOfPCSComeWithAdvice), those of resource groups where settings
// select one (TestCheckOfAGroup).
func TestErrorCodesComeWithAdvice(t *testing.T) {
	_, sim := simulatedEC2(t, `payment_delay = "0s"`)
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	for _, r := range slices.Concat(ec2.Remedies, awsconfig.General) {
		if slices.Contains(r.Calls, "RunInstances") || slices.Contains(r.Calls, "ListGroupResources") {
			continue
		}
		if r.Code == "CapacityBlockDescribeLimitExceeded" && r.Says == "" {
			continue // waits for a minute before it is shown: package ec2, TestBackToBackSearches
		}
		calls := r.Calls
		if len(calls) == 0 {
			calls = []string{""}
		}
		for _, call := range calls {
			args, known := asksFor[call]
			if !known {
				t.Errorf("%s of %s: no command is known to meet it", r.Code, call)
				continue
			}
			sim.ClearFaults()
			if _, err := sim.AddFault(awssim.Fault{Service: "ec2", Operation: call, Effect: awssim.FailBefore, Code: r.Code, Message: "EC2 says: " + r.Says + "."}); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir() // what one run remembers is not for the next one
			config := filepath.Join(dir, "config.toml")
			if err := os.WriteFile(config, fmt.Appendf(nil, "cluster = \"ml\"\nstate_dir = %q\n[reserve]\nenabled = true\n", dir), 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "pcs-capacity", append([]string{"--config", config}, args...)...)
			cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+dir)
			said, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(said), r.Code) || !strings.Contains(string(said), r.Do) {
				t.Errorf("%s of %s: %v, want %q:\n%s", r.Code, call, err, r.Do, said)
			}
		}
	}
}

// TestErrorCodesAreDocumented compares docs/errors.md with the code. UPDATE_TRANSCRIPTS=1
// writes it.
func TestErrorCodesAreDocumented(t *testing.T) {
	const path, begin = "../../docs/errors.md", "<!-- codes -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(text), begin)
	if !found {
		t.Fatalf("%s has no list", path)
	}
	want := head + begin + remedyItems("EC2", ec2.Remedies) + remedyItems("PCS", pcs.Remedies) + remedyItems("EC2 and PCS", awsconfig.General)
	if string(text) == want {
		return
	}
	if os.Getenv("UPDATE_TRANSCRIPTS") == "" {
		t.Fatalf("%s is not what the code does; UPDATE_TRANSCRIPTS=1 writes it", path)
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// remedyItems are a list in Markdown for each set of calls. Codes that mean the same share an item.
func remedyItems(service string, table []awsconfig.Remedy) string {
	var b strings.Builder
	last := ""
	for i := 0; i < len(table); {
		r, codes := table[i], []string{}
		for ; i < len(table) && table[i].Means == r.Means && table[i].Do == r.Do && slices.Equal(table[i].Calls, r.Calls); i++ {
			code := "`" + table[i].Code + "`"
			if r.Says != "" {
				code += fmt.Sprintf(" (“… %s …”)", r.Says)
			}
			codes = append(codes, code)
		}
		of := service
		if len(r.Calls) > 0 {
			of += ": " + strings.Join(r.Calls, ", ")
		}
		if of != last {
			fmt.Fprintf(&b, "\n**%s**\n\n", of)
		}
		last = of
		fmt.Fprintf(&b, "- %s: %s %s\n", strings.Join(codes, ", "), sentence(r.Means), sentence(r.Do))
	}
	return b.String()
}

// sentence begins a text with a capital and ends it with a full stop.
func sentence(text string) string {
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
