package slurm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Walls reads the longest limits that QOS and associations allow in this cluster. Nothing
// in them is written by users without rights. It asks slurmdbd, not slurmctld.
func (c *Client) Walls(ctx context.Context, cluster string) (capacity.Walls, error) {
	fail := func(err error) (capacity.Walls, error) {
		return capacity.Walls{}, fmt.Errorf("reading the limits of accounting: %w", err)
	}
	if err := checkName("cluster", cluster); err != nil {
		return fail(err)
	}
	var qos []capacity.QOSWall
	err := c.sacctmgr(ctx, []string{"qos"}, []string{
		"name",
		"maxwall",
		"flags",
		"grpwall",
		"maxtresmins",
		"grptresmins",
		"grptresrunmins",
		"maxtresrunminspa",
		"maxtresrunminspu",
	}, func(f []string) (err error) {
		q := capacity.QOSWall{Name: f[0], OverPartition: slices.Contains(splitList(f[2]), "OverPartQOS"),
			Metered: anySet(f[3:])}
		q.MaxWall, err = capacity.ParseLimit(f[1])
		qos = append(qos, q)
		return err
	})
	if err != nil {
		return fail(err)
	}
	var associations []capacity.Association
	parents, grouped := map[string]string{}, map[string]bool{} // of accounts
	err = c.sacctmgr(ctx, []string{"associations", "cluster=" + cluster}, []string{
		"account",
		"user",
		"partition",
		"maxwall",
		"defaultqos",
		"qos",
		"parentname",
		"grpwall",
		"grptresmins",
		"grptresrunmins",
		"maxtresmins",
	}, func(f []string) (err error) {
		a := capacity.Association{Account: f[0], User: f[1], Partition: f[2], DefaultQOS: f[4]}
		if allowed := splitList(f[5]); a.DefaultQOS == "" && len(allowed) == 1 {
			a.DefaultQOS = allowed[0]
		}
		a.MaxWall, err = capacity.ParseLimit(f[3])
		a.Metered = anySet(f[7:])
		if a.User == "" {
			parents[a.Account], grouped[a.Account] = f[6], anySet(f[7:10])
		}
		associations = append(associations, a)
		return err
	})
	if err != nil {
		return fail(err)
	}
	for i := range associations { // limits of a group are those of its parents too, which sacctmgr does not show
		a := &associations[i]
		for account, n := a.Account, 0; account != "" && !a.Metered && n <= len(parents); n++ {
			a.Metered = grouped[account]
			account = parents[account]
		}
	}
	accounts := map[string]string{}
	err = c.sacctmgr(ctx, []string{"user"}, []string{"user", "defaultaccount"}, func(f []string) error {
		accounts[f[0]] = f[1]
		return nil
	})
	if err != nil {
		return fail(err)
	}
	return capacity.NewWalls(qos, associations, accounts), nil
}

func anySet(values []string) bool {
	return slices.ContainsFunc(values, func(v string) bool { return v != "" })
}

// sacctmgr shows things of Slurm's accounting and calls row with the fields of each.
func (c *Client) sacctmgr(ctx context.Context, what, fields []string, row func([]string) error) error {
	args := append([]string{"--noheader", "--parsable2", "show"}, what...)
	out, err := c.run(ctx, "sacctmgr", append(args, "format="+strings.Join(fields, ","))...)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		values := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		if len(values) != len(fields) {
			return fmt.Errorf("sacctmgr show %s answers %s, not the fields %s", what[0], quote(line), strings.Join(fields, ","))
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return nil
}
