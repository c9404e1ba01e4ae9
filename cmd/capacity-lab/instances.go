package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

type simInstancesCmd struct {
	Region string `placeholder:"REGION" help:"Only this region."`
	JSON   bool   `name:"json" help:"Show everything that is known of them."`
}

// Run is called by kong.
func (cmd *simInstancesCmd) Run() error {
	var answer bytes.Buffer
	if err := control(&answer, http.MethodGet, "instances?region="+url.QueryEscape(cmd.Region), nil); err != nil {
		return err
	}
	if cmd.JSON {
		_, err := io.Copy(terminal.Stdout, &answer)
		return err
	}
	var instances []awssim.Instance
	if err := json.Unmarshal(answer.Bytes(), &instances); err != nil {
		return err
	}
	t := table.NewWriter()
	t.SetOutputMirror(terminal.Stdout)
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Box.PaddingLeft, t.Style().Box.PaddingRight = "", "  "
	t.SuppressTrailingSpaces()
	t.AppendHeader(table.Row{"instance", "type", "zone", "state", "capacity reservation", "lifecycle"})
	for _, i := range instances {
		t.AppendRow(table.Row{i.ID, i.Type, i.Zone, i.State, i.ReservationID, i.Lifecycle})
	}
	t.Render()
	return nil
}
