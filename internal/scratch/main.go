package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

func main() {
	auth := ""
	if len(os.Args) > 3 {
		auth = os.Args[3]
	}
	c, err := slurmlab.Start(context.Background(), slurmlab.Config{Dir: os.Args[1], Auth: auth,
		Resume:      func(ctx context.Context, nodes []string) {},
		CloudGroups: []slurmlab.NodeGroup{{Prefix: "cloud", Count: 4, Partition: "cloud", CPUs: 8, Features: "cloud,gpu"}}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer c.Stop()
	format, _ := os.ReadFile("/tmp/perf/format")
	run := func(args ...string) []byte {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = "/tmp"
		cmd.Env = append(os.Environ(), c.Env()...)
		cmd.Env = append(cmd.Env, "SQUEUE_FORMAT2="+string(format), "TZ=UTC", "LC_ALL=C", "SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0")
		out, err := cmd.CombinedOutput()
		if args[0] != "squeue" || err != nil {
			fmt.Println(args[0], string(out), err)
		}
		return out
	}
	comment := "capacity=any\nJobId=999 JobState=RUNNING\nbin\xff\xfe\x01\x1b[31m \"q\" \\ end"
	for b := 1; b < 256; b++ {
		comment += string([]byte{byte(b)})
	}
	name := ""
	for b := 33; b < 256; b++ {
		name += string([]byte{byte(b)})
	}
	run("sbatch", "-n1", "-t", "10", "--comment", comment, "-J", name, "--wrap", "sleep 100")
	run("sbatch", "-H", "-p", "cloud", "-A", "nlp", "-a", "1-4%2", "-C", "cloud&gpu", "-t", "UNLIMITED", "--wrap", "sleep 100")
	run("sbatch", "-H", "-p", "static,cloud", "-A", "vis", "--no-requeue", "-N2", "-t", "60", "--time-min=30", "--wrap", "sleep 100")
	run("sbatch", "-H", "-p", "cloud", "-A", "nlp", "-t", "45", "--wrap", "sleep 1", ":", "-p", "static", "-t", "UNLIMITED")
	run("sbatch", "-H", "-p", "cloud", "-A", "nlp", "-t", "45", "--deadline=2027-01-01T00:00:00", "--begin=2026-12-24T00:00:00", "--wrap", "sleep 100")
	run("sbatch", "-p", "cloud", "-A", "nlp", "-N2", "-t", "30", "--wrap", "sleep 100")
	run("scontrol", "update", "jobid=2", "admincomment=a=b\nc")
	run("sbatch", "-p", "static", "-n1", "-t", "UNLIMITED", "--wrap", "sleep 100")
	time.Sleep(4 * time.Second)
	run("scontrol", "requeuehold", "8")
	time.Sleep(3 * time.Second)
	out := run("squeue", "--all", "--noheader", "--noconvert")
	os.WriteFile(os.Args[2], out, 0o644)
	fmt.Println(run("squeue", "-V"))
}
