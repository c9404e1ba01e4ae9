package slurm

import (
	"testing"
)

// Whatever Slurm's programs print, and whatever users write into it, is read or refused.

func FuzzJobs(f *testing.F) {
	for _, version := range versions {
		f.Add(string(recordedBy(f, "squeue-"+version+".txt")))
	}

	for _, fields := range []jobFields{allFields, briefFields} {
		f.Add(recordOf(fields, recordedMark, map[string]string{"Comment": "\n" + record("", nil)}))
	}

	f.Fuzz(func(t *testing.T, text string) {
		for _, fields := range []jobFields{allFields, briefFields} {
			jobs, err := parseJobFields(t, fields, []byte(text), recordedMark)
			if err != nil {
				continue
			}

			for _, j := range jobs {
				if j.ID < 0 || j.NumNodes < 0 || j.Pending() && j.Running() {
					t.Errorf("%+v", j)
				}
			}
		}
	})
}

// R7: a comment of any text is read as it is, and is no record of its own.
func FuzzComment(f *testing.F) {
	f.Add("capacity=any\n7|7|RUNNING")
	f.Add(record("", nil))
	f.Fuzz(func(t *testing.T, comment string) {
		mark := newDelimiter()
		for _, fields := range []jobFields{allFields, briefFields} {
			text := recordOf(
				fields,
				mark,
				map[string]string{"Comment": comment, "Reason": comment},
			) + recordOf(
				fields,
				mark,
				map[string]string{"JobID": "8"},
			)

			jobs, err := parseJobFields(t, fields, []byte(text), mark)
			if err != nil || len(jobs) != 2 || jobs[0].ID != 7 || jobs[1].ID != 8 || jobs[1].Comment != "" {
				t.Errorf("%+v, %v", jobs, err)
			}
		}
	})
}

func FuzzResumeFile(f *testing.F) {
	f.Add(`{"jobs":[{"job_id":3,"nodes":"cloud[2-4]"}],"all_nodes":"cloud[2-4]"}`)
	f.Add(
		`{"jobs":[{"extra":null,"job_id":2829,"features":"gpu","nodes_alloc":"cloud[1-2]","nodes_resume":"cloud[1-2]","partition":"cloud","reservation":null}],"all_nodes_resume":"cloud[1-4]"}`,
	)
	f.Fuzz(func(t *testing.T, text string) {
		jobs, _ := parseResumeFile([]byte(text))
		for _, j := range jobs {
			if j.ID <= 0 {
				t.Errorf("%+v", j)
			}
		}
	})
}

func FuzzScontrol(f *testing.F) {
	for _, version := range versions {
		for _, what := range []string{"node", "partition", "reservation", "config"} {
			f.Add(string(recordedBy(f, what+"-"+version+".txt")))
		}
	}

	f.Fuzz(func(t *testing.T, text string) {
		for _, n := range parseNodes([]byte(text)) {
			if checkName("node", n.Name) != nil || n.State == "" {
				t.Errorf("%+v", n)
			}
		}

		_, _ = parseReservations([]byte(text)), parsePartitions([]byte(text))
	})
}
