package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// On a terminal the demo wraps all output; in a log lines stay as printed.
func TestDemoFitsTheTerminal(t *testing.T) {
	const command = `printf '%s\n' 'slot gpu: placed the fence, no job runs on gpu-[1-4] after 22:04' ` +
		`'   Nodes=gpu-a-[1-2] NodeCnt=2 CoreCnt=384 Flags=MAINT' ` +
		`'  pcs-capacity setup --reservation cr-1 --queue QUEUE'; echo $COLUMNS`
	for width, want := range map[int]string{
		0: `# A job that waits is made longer than what is left of the block.
$ ` + command + `
  slot gpu: placed the fence, no job runs on gpu-[1-4] after 22:04
     Nodes=gpu-a-[1-2] NodeCnt=2 CoreCnt=384 Flags=MAINT
    pcs-capacity setup --reservation cr-1 --queue QUEUE
  98
✗ the output has no match of a line that is there, for sure, but with other words
`,
		50: `# A job that waits is made longer than what is
  left of the block.
$ printf '%s\n' \
'slot gpu: placed the fence, no job runs on gpu-[1-4] after 22:04' \
'   Nodes=gpu-a-[1-2] NodeCnt=2 CoreCnt=384 Flags=MAINT' \
'  pcs-capacity setup --reservation cr-1 --queue QUEUE'; \
    echo $COLUMNS
  slot gpu: placed the fence, no job runs on
    gpu-[1-4] after 22:04
     Nodes=gpu-a-[1-2] NodeCnt=2 CoreCnt=384
       Flags=MAINT
    pcs-capacity setup --reservation cr-1 \
        --queue QUEUE
  48
✗ the output has no match of a line that is there,
  for sure, but with other words
`,
	} {
		dir := t.TempDir()
		env := filepath.Join(dir, "env")
		if err := os.WriteFile(env, nil, 0o644); err != nil {
			t.Fatal(err)
		}

		var out strings.Builder

		told := &script{Terminal: &terminal.Terminal{Out: &out, OutWidth: width}, ctx: t.Context(), env: env, work: dir}
		told.print("# A job that waits is made longer than what is left of the block.")
		told.run(command, expectation{output: "a line that is there, for sure, but with other words"})

		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", width, diff)
		}
	}
}
