package slurm

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Budgets reads what QOS and associations let jobs use over time, and what is used of it. It
// asks slurmctld, which keeps both; users cannot write what it shows. slurmctld keeps the used
// minutes only with priority/multifactor: without it, GrpTRESMins binds nobody, and jobs that
// run count as if they had just begun.
func (c *Client) Budgets(ctx context.Context) (capacity.Budgets, error) {
	out, err := c.run(ctx, "scontrol", "--oneliner", "show", "assoc_mgr", "flags=assoc,qos")
	var b capacity.Budgets
	if err == nil {
		b, err = parseBudgets(string(out))
	}
	if err != nil {
		return capacity.Budgets{}, fmt.Errorf("reading what accounting leaves: %w", err)
	}
	return b, nil
}

func parseBudgets(text string) (capacity.Budgets, error) {
	var all capacity.Budgets
	for line := range strings.Lines(text) {
		association := strings.HasPrefix(line, "ClusterName=")
		if !association && !strings.HasPrefix(line, "QOS=") {
			continue // a heading
		}
		// What follows is of each account and each user, with keys of its own.
		line, _, _ = strings.Cut(line, " Account Limits=")
		values := fields(line)
		b, err := parseBudget(values)
		if err != nil {
			return all, err
		}
		if !association {
			b.QOS = withoutID(values["QOS"])
			all.QOS = append(all.QOS, b)
			continue
		}
		b.Account, b.User, b.Partition, b.Parent = values["Account"], withoutID(
			values["UserName"],
		), values["Partition"], withoutID(values["ParentAccount"])
		all.Associations = append(all.Associations, b)
	}
	if len(all.QOS) == 0 || len(all.Associations) == 0 {
		return all, fmt.Errorf("scontrol show assoc_mgr shows %d QOS and %d associations", len(all.QOS),
			len(all.Associations))
	}
	return all, nil
}

// withoutID takes the number off a name: nlp(4).
func withoutID(name string) string {
	if i := strings.LastIndexByte(name, '('); i >= 0 && strings.HasSuffix(name, ")") {
		return name[:i]
	}
	return name
}

// rounded is what minutes that are shown without their seconds may be short of, twice.
const rounded = 2

func parseBudget(values map[string]string) (b capacity.Budget, err error) {
	fail := func(key string) (capacity.Budget, error) {
		return b, fmt.Errorf("scontrol show assoc_mgr shows %s=%s", key, quote(values[key]))
	}
	for _, key := range []string{"GrpJobs", "GrpWall", "GrpTRESMins", "GrpTRESRunMins", "MaxTRESMinsPJ"} {
		if _, ok := values[key]; !ok {
			return b, fmt.Errorf("scontrol show assoc_mgr does not show %s", key)
		}
	}
	total, used, ok := meters(values["GrpTRESMins"])
	if !ok {
		return fail("GrpTRESMins")
	}
	most, running, ok := meters(values["GrpTRESRunMins"])
	if !ok {
		return fail("GrpTRESRunMins")
	}
	for tres, limit := range total {
		if b.Total == nil {
			b.Total = map[string]capacity.Meter{}
		}
		b.Total[tres] = capacity.Meter{Limit: limit, Taken: used[tres] + running[tres] + rounded}
	}
	for tres, limit := range most {
		if b.Running == nil {
			b.Running = map[string]capacity.Meter{}
		}
		b.Running[tres] = capacity.Meter{Limit: limit, Taken: running[tres] + rounded}
	}
	if text := values["MaxTRESMinsPJ"]; text != "" {
		if b.PerJob, err = ParseTRES(text); err != nil {
			return fail("MaxTRESMinsPJ")
		}
	}
	wall, bounded, used1, ok := meter(values["GrpWall"])
	if !ok {
		return fail("GrpWall")
	}
	if bounded {
		b.Wall = &capacity.Meter{Limit: wall, Taken: used1}
	}
	if _, _, b.Jobs, ok = meter(values["GrpJobs"]); !ok {
		return fail("GrpJobs")
	}
	return b, nil
}

// meters reads "cpu=40000(104),mem=N(0),…": limits, where there are any, and what is used.
func meters(text string) (limits, used map[string]int64, ok bool) {
	limits, used = map[string]int64{}, map[string]int64{}
	for _, part := range splitList(text) {
		// The name of a TRES may have "=" in it: gres/gpu=…, but never its value.
		i := strings.LastIndexByte(part, '=')
		if i < 0 {
			return nil, nil, false
		}
		limit, bounded, taken, ok := meter(part[i+1:])
		if !ok {
			return nil, nil, false
		}
		if used[part[:i]] = taken; bounded {
			limits[part[:i]] = limit
		}
	}
	return limits, used, true
}

// meter reads "40000(104)", or "N(104)" where there is no limit. Parts of a minute count whole.
func meter(text string) (limit int64, bounded bool, used int64, ok bool) {
	before, after, ok := strings.Cut(strings.TrimSuffix(text, ")"), "(")
	taken, err := strconv.ParseFloat(after, 64)
	if !ok || err != nil || taken < 0 || taken > math.MaxInt64/4 {
		return 0, false, 0, false
	}
	used = int64(math.Ceil(taken))
	if before == "N" {
		return 0, false, used, true
	}
	limit, err = strconv.ParseInt(before, 10, 64)
	return limit, true, used, err == nil && limit >= 0 && limit <= math.MaxInt64/4
}

// memUnits are what Slurm writes behind amounts of memory, in MB.
var memUnits = map[string]float64{"": 1, "K": 1.0 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024, "P": 1024 * 1024 * 1024}

// ParseTRES reads "cpu=192,mem=2000000M,node=1,gres/gpu=8".
func ParseTRES(text string) (capacity.TRES, error) {
	all := capacity.TRES{}
	for _, part := range splitList(text) {
		i := strings.LastIndexByte(part, '=')
		if i < 0 {
			return nil, fmt.Errorf("%s is no list of TRES", quote(text))
		}
		name, amount := part[:i], part[i+1:]
		number := strings.TrimRight(amount, "KMGTP")
		unit, known := memUnits[amount[len(number):]]
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || !known || !(n >= 0 && n*unit < math.MaxInt64/4) {
			return nil, fmt.Errorf("%s is no list of TRES", quote(text))
		}
		all[name] = int64(math.Ceil(n * unit))
	}
	return all, nil
}

// tresFields are what Held asks for.
var tresFields = jobFields{plain: []plainField{
	{"JobID", intField(func(j *capacity.Job) *int { return &j.ID })},
	{"JobArrayID", func(j *capacity.Job, text string) error { return readShown(j, text) }},
	{"tres-alloc", func(j *capacity.Job, text string) error { j.TRES, _ = ParseTRES(text); return nil }},
}}

// Held is what the running jobs of the partitions hold, as they are Shown; empty where Slurm
// does not say it.
func (c *Client) Held(ctx context.Context, partitions []string) (map[string]capacity.TRES, error) {
	held := map[string]capacity.TRES{}
	err := c.eachJob(ctx, tresFields, func(j capacity.Job) error { held[j.Shown] = j.TRES; return nil },
		"--states=RUNNING", "--partition="+strings.Join(partitions, ","))
	return held, err
}
