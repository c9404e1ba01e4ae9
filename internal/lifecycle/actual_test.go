package lifecycle

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// slurmScript stands for Slurm's programs. It writes down what is asked to change, refuses the verb in the file
// fails, has forgotten each job that scontrol shows, and has node gpu-1 alone powered down. Job 7 has the fields of the
// file job, and once it is held that of meanwhile; it waits once it is requeued, and has the limit that it gets.
const slurmScript = `#!/bin/sh
here=$(dirname "$0")
test "$1" = -- && shift
case $(basename "$0") in
squeue)
	case $* in *--format=*) exit 0;; esac
	since=$(sed -n -e 's/.*requeue.*/State=PENDING/p' -e 's/.* timelimit=90$/TimeLimit=1:30:00/p' "$here/asked" 2>/dev/null; grep -q uhold "$here/asked" 2>/dev/null && cat "$here/meanwhile")
	printf %s "$SQUEUE_FORMAT2" | awk -v fields="$(cat "$here/job"; echo "$since")" 'BEGIN { RS = ","; v["JobID"] = v["JobArrayID"] = 7
		v["NodeList"] = ""; v["TimeLimit"] = "UNLIMITED"; v["EligibleTime"] = v["StartTime"] = v["EndTime"] = v["Deadline"] = v["MinTime"] = "N/A"
		m = split("Partition Account QOS UserName Reason Feature Reservation Name Comment admin_comment", texts, " "); for (i = 1; i <= m; i++) v[texts[i]] = "(null)"
		m = split(fields, lines, "\n"); for (i = 1; i <= m; i++) { at = index(lines[i], "="); if (at > 0) v[substr(lines[i], 1, at - 1)] = substr(lines[i], at + 1) } }
		{ i = index($0, ":"); n = substr($0, 1, i - 1); printf "%s%s", (n in v ? v[n] : "0"), substr($0, i + 1) } END { print "" }'
	exit;;
sinfo) printf 'idle+powered_down|gpu-1|\nidle+powering_up|gpu-2|\n'; exit;;
sbatch) echo "sbatch $(echo "$*" | tr ' ' '\n' | grep -e nodelist -e reservation | tr '\n' ' ')" >>"$here/asked"; echo 12; exit;;
esac
case "$*" in
--version) echo slurm 25.11.4; exit;;
*" show "*) echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1;;
esac
echo "$(basename "$0") $*" >>"$here/asked"
if test -e "$here/fails" && echo "$*" | grep -q -f "$here/fails"; then cat "$here/why" >&2; exit 1; fi
`

// In the actual world an effect is these calls of Slurm's programs, in this order. A stop in the middle of a change
// of guards leaves none of them out: each is carried out for a caller who has gone already.
func TestActual(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"scontrol", "squeue", "sinfo", "scancel", "sbatch"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(slurmScript), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	later := noon.Add(time.Hour)
	guard := func(do string, occupied bool) ChangeGuard {
		r := reservation("new", []string{"gpu-1"}, at("-1h"), time.Time{})
		return ChangeGuard{Do: do, R: r, Old: "old", Occupied: occupied}
	}
	job := capacity.Job{Shown: "7", State: "RUNNING", TimeLimit: capacity.NoLimit, Held: true}
	waits, held := job, job
	waits.State, held.State = "PENDING", "PENDING"
	held.AdminComment = capacity.HoldNote(noon, "refused")
	queued := []string{"State=PENDING"}
	refused := []string{"State=PENDING", "admin_comment=" + capacity.HoldNote(later, "refused again")}
	const (
		create  = "scontrol create reservation reservationname=new nodes=gpu-1 starttime=uts1795176000 duration=infinite users=root flags=MAINT,IGNORE_JOBS comment=pcs-capacity sync keeps this; it is made again when deleted; me"
		comment = "scontrol update jobid=7 admincomment=pcs-capacity: over"
		limit   = "scontrol update jobid=7 timelimit=90"
		begin   = "scontrol update jobid=7 starttime=uts1795179600"
		release = "scontrol release 7"
	)
	uhold := []string{"scontrol update jobid=7 starttime=now", "scontrol uhold 7"}
	fit := capacity.Edits{TimeLimit: capacity.Minutes(90)}
	over := Requeued{Limit: 90, Fence: later, Held: true}
	for name, c := range map[string]struct {
		effect capacity.Effect
		gone   bool     // the caller
		now    []string // what squeue says of job 7, beside or in place of a running one
		then   string   // and once the job is held
		fails  string   // what a command has that fails
		why    string
		want   []string
		err    string
		also   int
		held   bool
		not    bool // tried
	}{
		"a guard":                    {effect: guard("create", false), want: []string{create}},
		"a guard goes":               {effect: guard("delete", false), want: []string{"scontrol delete reservationname=new"}},
		"a guard that has gone":      {effect: guard("delete", false), fails: "delete", why: "Requested reservation is invalid", want: []string{"scontrol delete reservationname=new"}},
		"a guard that must stay":     {effect: guard("delete", false), fails: "delete", why: "Access/permission denied", want: []string{"scontrol delete reservationname=new"}, err: "permission denied"},
		"another guard":              {effect: guard("replace", false), gone: true, want: []string{create, "scontrol delete reservationname=old"}},
		"another guard of this name": {effect: guard("replace", true), gone: true, want: []string{"scontrol delete reservationname=new", create, "scontrol delete reservationname=old"}},
		"another guard is refused":   {effect: guard("replace", false), fails: "create", why: "no", want: []string{create}, err: "no"},

		"a requeue": {effect: RequeueJob{Job: job, Requeued: over, Note: "over"}, want: []string{comment, "scontrol requeuehold 7", limit, begin, release}},
		"a requeue of which nobody is told": {effect: RequeueJob{Job: job, Requeued: over, Note: "over"}, fails: "admincomment", why: "no",
			want: []string{comment, "scontrol requeuehold 7", limit, begin, release}, also: 1},
		"a requeue for which nothing is left":  {effect: RequeueJob{Job: job, Note: "over"}, want: []string{comment, "scontrol requeue 7"}},
		"a requeue, held until it is finished": {effect: FinishRequeue{Job: waits, Requeued: over}, now: queued, want: []string{limit, begin, release}},
		"a requeue that stays held":            {effect: FinishRequeue{Job: waits, Requeued: over}, now: queued, fails: "release", why: "no", want: []string{limit, begin, release}, also: 1, held: true},
		"a requeue whose fence has passed":     {effect: FinishRequeue{Job: waits, Requeued: Requeued{Limit: 90, Fence: noon}}, now: queued, want: []string{limit}},
		"a requeue of a job that a hook holds": {effect: FinishRequeue{Job: held, Requeued: over}, now: append(queued, "admin_comment="+held.AdminComment), want: []string{limit, begin}},
		"a job that is told":                   {effect: TellJob{Job: "7", Text: "soon"}, fails: "notify", why: "no", want: []string{"scontrol notify 7 soon"}, err: "no"},
		"a job that cannot hear":               {effect: TellJob{Job: "7", Text: "soon", Deaf: true}, fails: "notify", why: "no", want: []string{"scontrol notify 7 soon"}},
		"a limit":                              {effect: SetLimit{Job: job, Minutes: 90}, want: []string{limit}},
		"limits":                               {effect: FitJobs{{Job: waits, Edits: fit}}, now: queued, want: []string{limit}},
		"limits that are refused": {effect: FitJobs{{Job: waits, Edits: fit}}, now: queued, fails: "^update jobid=7 timelimit", why: "no",
			want: []string{limit, "scontrol update jobid=7 admincomment=" + fitNote("", "setting the time limit, job 7: scontrol -- update jobid=7 timelimit=90: exit status 1: no")}, also: 1},
		"an owner who is told":       {effect: TellOwner{Job: waits, Text: "pcs-capacity: over"}, now: queued, want: []string{comment}},
		"a hold that its owner gets": {effect: EndHold{Job: waits, Admin: true, Over: true, Note: "pcs-capacity: over"}, now: queued, want: []string{"scontrol update jobid=7 starttime=now", "scontrol uhold 7", comment}},
		"a hold of a job that goes on by now": {effect: EndHold{Job: waits, Admin: true, Over: true, Note: "over"}, now: queued,
			then: "admin_comment=" + capacity.GoOnNote("big", noon, "refused"), want: []string{uhold[0], uhold[1], release}},
		"a hold that a hook renews meanwhile": {effect: EndHold{Job: waits, Admin: true, Over: true, Note: "over"}, now: queued,
			then: "admin_comment=" + capacity.HoldNote(later, "refused again"), want: uhold},
		"a hold that its owner cannot get": {effect: EndHold{Job: waits, Admin: true, Over: true, Note: "over"}, now: queued, fails: "uhold", why: "no", want: []string{"scontrol update jobid=7 starttime=now", "scontrol uhold 7"}, err: "no"},

		// What others have changed since the pass read the job stays as they have it.
		"a requeue of a job that a hook has held":      {effect: RequeueJob{Job: job, Requeued: over, Note: "over"}, now: refused, not: true},
		"a requeue of a job that a hook is to hold":    {effect: RequeueJob{Job: job, Requeued: over, Note: "over"}, now: refused[1:], not: true},
		"a requeue of a job that has begun anew":       {effect: RequeueJob{Job: job, Requeued: over, Note: "over"}, now: []string{"RestartCnt=1"}, not: true},
		"a requeue of a job that an audit has marked":  {effect: RequeueJob{Job: job, Note: "over"}, now: []string{"admin_comment=audit"}, want: []string{comment, "scontrol requeue 7"}},
		"a requeue of a job that squeue cannot read":   {effect: RequeueJob{Job: job, Note: "over"}, now: []string{"RestartCnt=many"}, err: "RestartCnt"},
		"the rest of a requeue, and a hook has held":   {effect: FinishRequeue{Job: waits, Requeued: over}, now: refused, not: true},
		"a limit of a job that has another":            {effect: SetLimit{Job: job, Minutes: 90}, now: []string{"TimeLimit=30:00"}, not: true},
		"a limit of a job that waits again":            {effect: SetLimit{Job: job, Minutes: 90}, now: queued, not: true},
		"a limit of a waiting job that runs":           {effect: FitJobs{{Job: waits, Edits: fit}}, not: true},
		"a limit of a waiting job that has one":        {effect: FitJobs{{Job: waits, Edits: fit}}, now: append(queued, "TimeLimit=30:00"), not: true},
		"a limit of a waiting job with a new wish":     {effect: FitJobs{{Job: waits, Edits: fit}}, now: append(queued, "Comment=another"), not: true},
		"a limit of a waiting job: squeue fails":       {effect: FitJobs{{Job: waits, Edits: fit}}, now: append(queued, "RestartCnt=many"), not: true},
		"an owner whose job a hook has held":           {effect: TellOwner{Job: waits, Text: "pcs-capacity: over"}, now: refused, not: true},
		"an owner whose job has another constraint":    {effect: TellOwner{Job: waits, Text: "pcs-capacity: over"}, now: append(queued, "Feature=big"), not: true},
		"an owner whose job waits for another place":   {effect: TellOwner{Job: waits, Text: "pcs-capacity: over"}, now: append(queued, "Partition=big"), not: true},
		"an owner whose job may be shorter":            {effect: TellOwner{Job: waits, Text: "pcs-capacity: over"}, now: append(queued, "MinTime=30:00"), not: true},
		"an owner whose job was released":              {effect: TellOwner{Job: waits, Text: "pcs-capacity: over"}, now: append(queued, "PriorityLong=1"), not: true},
		"a hold that a hook has renewed":               {effect: EndHold{Job: held, Admin: true, Over: true, Note: "pcs-capacity: over"}, now: refused, not: true},
		"a hold of a job that Slurm has forgotten":     {effect: EndHold{Job: waits, Admin: true, Over: true, Note: "over"}, now: append(queued, "JobArrayID=8"), not: true},
		"a hold of a job that has run in the meantime": {effect: EndHold{Job: waits, Admin: true, Over: true, Note: "over"}, now: append(queued, "RestartCnt=1"), not: true},

		"nodes that go back":                    {effect: ReturnNodes{Nodes: []string{"gpu-1", "gpu-2"}, Reason: "off"}, want: []string{"scontrol update nodename=gpu-[1-2] nodeaddr=255.255.255.255,255.255.255.255 state=POWER_DOWN_FORCE reason=off"}},
		"nodes that go back if they are off":    {effect: ReturnNodes{Nodes: []string{"gpu-1", "gpu-2"}, Reason: "off", StillOff: true}, want: []string{"scontrol update nodename=gpu-1 nodeaddr=255.255.255.255 state=POWER_DOWN_FORCE reason=off"}},
		"what the actual world has no deed for": {effect: KeepNotMisplaced{}, err: "nobody carries out"},
	} {
		t.Run(name, func(t *testing.T) {
			fields := strings.Join(append([]string{"State=RUNNING"}, c.now...), "\n")
			for file, text := range map[string]string{"asked": "", "fails": c.fails, "why": c.why, "job": fields, "meanwhile": c.then} {
				path := filepath.Join(dir, file)
				if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				if text != "" && os.WriteFile(path, []byte(text+"\n"), 0o644) != nil {
					t.Fatal(path)
				}
			}
			ctx, stop := context.WithCancel(t.Context())
			if c.gone {
				stop()
			}
			defer stop()
			x := &actual{Client: &slurm.Client{Dir: dir}, keeper: "me", machineTime: func() time.Time { return noon }}
			a := x.Do(ctx, c.effect)
			for _, each := range a.Each {
				a.also(each.Err)
				a.NotTried = a.NotTried || each.NotTried
			}
			text, _ := os.ReadFile(filepath.Join(dir, "asked"))
			var got []string
			for line := range strings.Lines(string(text)) {
				got = append(got, strings.ReplaceAll(strings.TrimSuffix(line, "\n"), dir+"/", ""))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if (a.Err == nil) != (c.err == "") || a.Err != nil && !strings.Contains(a.Err.Error(), c.err) || len(a.Also) != c.also || a.Held != c.held ||
				a.NotTried != c.not {
				t.Errorf("%+v", a)
			}
		})
	}
}
